package main

// reportText is the template of docs/proof.md and docs/failovers.md.
const reportText = `# {{.Title}}

<!-- Written by the program in campaign/ from the figures of its runs. Don't edit it: see the end of the page. -->

Real servers, real processes, one real fault in each round, and this library next to what people use today, in the same
rounds. The program writes this page from its figures; where this library does badly, the page says so.
{{if .Failovers}}
In these rounds a replica takes over, or keys move to another server. There are a few rounds of each fault;
[proof.md](proof.md) has all other faults, in many rounds.
{{end}}
The results are in {{range $i, $run := .Runs}}{{if $i}}, {{end}}[the run of {{$run.Started.Format "2006-01-02 15:04"}} UTC](#the-run-of-{{$run.Started.Format "2006-01-02-1504"}}-utc){{end}}.
The sections before that say what was done, and how to read the tables.

## What a round is

{{if .Failovers}}[The same as in proof.md](proof.md#what-a-round-is): a victim and a rival update data under one lock, and a
fault happens while the victim has it.

{{else}}A library gets two contenders in processes of their own, a *victim* and a *rival*, and data that the lock protects. Each
update acquires the lock, reads, thinks, writes what follows from what it has read, and releases the lock. The data is in
a server of the program's own, which no fault reaches: a holder that is cut off from the lock service can still write.
That is the worst case for a lock.

Both make {{.Warm}} updates together. Then the victim reads, and at a random moment of its critical section the fault happens. As
soon as the rival is granted the lock, it makes {{.Rival}} updates, and then holds the lock. Only then the victim's section
goes on; where the holder should keep the lock, it goes on when the fault has lasted for as long as the table says. The
victim writes if it believes that it has the lock. In a pause it writes without another look, because no program can look
between its last look and its write. Where a request comes late or a reply is lost, the fault is in the victim's
acquisition, its renewals or its release, and so happens there. A clock of the victim jumps after its read.

*Without the fence* the server takes every write. *With the fence* it takes the tokens of the leases, and refuses a
write with a token that is smaller than one it has seen. There are rounds with the fence where the library has tokens.

{{end}}| workload | data and updates | what is counted as lost |
|---|---|---|
{{range .Workloads}}| {{.Name}} | {{.What}} | {{.Losses}} |
{{end}}
| fault | what happens |
|---|---|
{{range .Faults}}| {{.Name}} | {{.What}} |
{{end}}
## How the libraries are set up

TTLs: {{range $i, $b := .Backends}}{{if $i}}, {{end}}{{$b.Name}} {{$b.TTL}}{{end}}. The servers have their default settings, except for their
addresses, and for ZooKeeper's heap and its limit of connections. Redis writes a snapshot when it is stopped in good
order.

| backend | library | how it is set up | how its holder learns of a loss |
|---|---|---|---|
{{range $b := .Backends}}{{range $b.Shown}}| {{$b.Name}} | {{.Name}} | {{or .SetUp "as its documentation says"}} | {{or .Looks "not at all: it believes until it releases"}} |
{{end}}{{end}}{{if .Variants}}
*redis-sentinel* is a Redis master with two replicas, and three Sentinels that promote one of them; *redis-cluster* is a
Redis Cluster with a replica of each master; *postgres-replica* is a Postgres primary with a replica, which the program promotes when the primary is
gone. These three meet the control, and the faults that a single server doesn't have.
{{end}}
Only this library promises what these columns ask for; what another doesn't promise is measured all the same. A run with
-peer-rounds has fewer rounds of the others. None of the others has the fence here. An advisory lock has no TTL: a
holder that is silent keeps it, and its rivals wait.

## How to read the tables

{{if .Failovers}}The columns are [explained in proof.md](proof.md#how-to-read-the-tables).

{{else}}- *rounds*: those that aren't void. A void round proves nothing, for the reason in the remark. A row of a few rounds shows
  that the fault happens and is judged, and not how often something goes wrong.
- *updates*: those that were acknowledged.
- *lost*: as the table of workloads says.
- *refused*: reads and writes that the fence has refused.
- *both believed*: rounds in which two holders believed at the same moment that they had the lock, by their own Err, Done
  or deadline; and the longest time of a round.
- *margin*: from the victim's knowledge that it has lost the lock to the rival's grant, in ms: least / median / greatest. A
  negative margin means that the rival was granted the lock before the victim knew. A deadline is knowledge.
- *grant*: from the fault to the rival's grant, in ms, for faults after which the lock should pass to the rival.
- *bound*: how late that should be at most, in ms: the library's TTL + slack; a TTL more where the victim's requests
  still arrive; and twice as much where the leader changes after the victim's last message. A busy machine may add a
  second: the remark counts the grants that came even later.
- The charts of margins have a bar from the least to the greatest margin of all rounds of a library, with the least one as
  a number. They end at 6 s. A library whose holder can't learn of a loss has no bar.
- *faults*, in the first table of a run: a fault of the servers is one, although it happens to several libraries at the
  same time. *Granted before the holder knew* is the number of rounds with a negative margin.
- All processes are on one machine, so their moments are on one clock (CLOCK_MONOTONIC).

{{end}}Many rounds run at the same time on a few processors. Moments of two processes are compared only where the order proves
something at any speed. A verdict that rests on time makes the round void if the machine stalled for 250 ms or longer in
the round, or was overloaded (a load above 6 for each processor): a grant that comes too late or not at all, a contender
that fails, a lock that its holder should have kept. A round without such a finding counts, however busy the machine was.
So these void rounds are those in which the lock may not have been available, and the remark says what they showed. What
a library does by design leaves no doubt: one without renewal loses its lock, and an advisory lock is never free while its
holder is silent. The last column of a run's first table counts all void rounds. Each has another one in its place, after
all others have ended, until there are twice as many rounds. The clients of "connections" make much of the load
themselves.

A control that loses an update without a fence fails, and so does a pause that loses no more than a tenth without one:
such rounds prove nothing. For this library more is a failure: a lost update with the fence, two holders that believed, a
rival that was granted the lock before the holder knew, tokens out of order, a token that is smaller than an earlier
holder's, a lost lease that comes back, a rival that is not granted the lock, or later than a second after the bound, a
contender that fails after the fault, a lock that is lost although the holder should keep it, and a row of which three
rounds or more are void, and more than a third.

What the [guarantees](guarantees.md) of this library's backend exclude under a fault isn't a failure. The remark says "not
promised" then, with the reason:

| fault | backend | what isn't promised | why |
|---|---|---|---|
{{range .Excluded}}| {{.Fault}} | {{.Backend}} | {{.What}} | {{.Why}} |
{{end}}
After a loss of all data, the program is Postgres' operator, and [sets the epoch](postgres.md#after-the-loss-of-all-data).
Nobody does that on etcd and ZooKeeper, where it takes [` + "`token_base`" + `](guarantees.md#when-tokens-may-repeat-or-fall):
until then the fence refuses all that later holders write, and so no update is lost.

Locks with a planted mistake pass through the same rounds in a run of their own, which fails if a mistake isn't found.
{{range $i, $run := .Runs}}{{$charts := index $.Charts $i}}
## The run of {{$run.Started.Format "2006-01-02 15:04"}} UTC

- this library: commit {{or $run.Commit "unknown"}}; seed {{$run.Seed}}; {{$run.Seconds}} s{{if gt $run.Parts 1}} in {{$run.Parts}} parts{{end}}, with up to {{$run.Parallel}} rounds at the same time
- machine: {{$run.System}}; {{$run.Go}}
- servers: {{values $run.Services}}
- libraries: {{versions $run.Libraries}}
{{range $run.Notes}}- {{.}}
{{end}}{{range $name, $why := $run.Left}}- left out: {{$name}}: {{$why}}
{{end}}{{with totals $run}}
This library, in all rounds of the run:

| backend | rounds | faults | updates | lost with the fence | granted before the holder knew | both believed | control, counter: lost without a fence | pause, counter: lost without a fence | void rounds |
|---|---|---|---|---|---|---|---|---|---|
{{range .}}| {{.Backend}} | {{.Rounds}} | {{.Faults}} | {{.Updates}} | {{.Lost}} | {{.Early}} | {{.Overlaps}} | {{.Control}} | {{.Pause}} | {{.Void}} |
{{end}}{{end}}{{with index $charts "lost"}}
![{{.Alt}}]({{.File}})
{{end}}{{range $b := $.Backends}}{{with section $run $b.Name}}
### {{$b.Name}}
{{with index $charts $b.Name}}
![{{.Alt}}]({{.File}})
{{end}}
| fault | workload | library | fence | rounds | updates | lost | refused | both believed | margin, ms | grant, ms | bound, ms | remarks |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{{range .}}| {{.Fault}} | {{.Workload}} | {{.Library}} | {{if .Fence}}yes{{else}}no{{end}} | {{.Rounds}} | {{.Acknowledged}} | {{.Lost}} | {{.Refused}} | {{if .Overlaps}}{{.Overlaps}}, up to {{printf "%.1f" .LongestOverlap}} ms{{else}}0{{end}} | {{figure .Margin}} | {{figure .Grant}} | {{if .Bound}}{{printf "%.0f" .Bound}}{{else}}–{{end}} | {{mark .}} |
{{end}}
To repeat a row, run the command of its workload in ` + "`campaign`" + `, with the row's fault for FAULT:
{{range commands $run $b.Name}}
    {{.}}{{end}}

{{end}}{{end}}{{end}}
## What was not tried

{{range .NotTried}}- {{.}}
{{end}}
## How to run it

{{if .Failovers}}    make failovers                                # the faults of these backends, and this page
    make failovers CONTINUE=-continue             # goes on after CAMPAIGN_TIME, or an interrupt
    cd campaign && go run . -backend '^redis-sentinel$' -fault leader-kill -rounds 6 -seed 1
    cd campaign && go run . -report ../docs/failovers.md failovers.json    # from the figures of make failovers
{{else}}    make campaign                                 # the faults of these backends, and this page
    make campaign CONTINUE=-continue              # goes on after CAMPAIGN_TIME, or an interrupt
    make campaign CONTINUE=-continue WORKLOADS='register|set|transfers' ROUNDS=4 PEER_ROUNDS=1    # and more workloads
    cd campaign && go run . -backend postgres -fault cut -rounds 50 -seed 1
    cd campaign && go run . -backend redis -fault pause -workload 'set|transfers'
    cd campaign && go run . -planted -rounds 100  # locks with a mistake, which must be found
    cd campaign && go run . -report ../docs/proof.md proof.json            # from the figures of make campaign
{{end}}
It needs Docker. Cuts and "connections" need Linux, root and iptables, and jumps of the servers' clocks a C compiler;
they are left out otherwise. The seed repeats what chance decides in a round, and not what the machine does meanwhile.
Containers are removed at the end, also after an interrupt. The next run removes those that a killed run has left.
`
