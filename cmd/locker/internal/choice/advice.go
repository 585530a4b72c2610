package choice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker"
)

// Advice is the result of the flow.
type Advice struct {
	Take    string               // in a sentence
	Backend string               // "" if no lock is needed, or none is good enough
	URL     string               // an example, with its TTL if the backend has one
	Require []locker.Requirement // what to require when the URL is opened
	Why     []string             // in sentences, as all that follows
	Not     []string             // what is not promised
	Also    []string             // what must be done in addition to the lock
}

// noLock is the advice for work that needs none.
var noLock = map[string]Advice{
	"idempotent": {
		Take: "Take no lock.",
		Why:  []string{"Two executions have the effect of one, so nothing has to be protected, and there is no lock that could fail."},
	},
	"record": {
		Take: "Take compare-and-swap instead of a lock.",
		Why: []string{
			"The storage decides in one step, and a late writer finds out at once: UPDATE … SET …, version = version + 1 WHERE id = $1 AND version = $2 in SQL, a Txn in etcd, a script in Redis.",
			"Repeat from the read when no row was changed.",
		},
	},
	"database": {
		Take: "Take a row lock in your own transaction: SELECT … FOR UPDATE, with NOWAIT or SKIP LOCKED where nobody should wait.",
		Why: []string{
			"It ends with the transaction, so it can't outlive what it protects, and nothing else must be run or understood.",
			"Where no row represents the whole, LockTx of a *pgbackend.Locker locks a name inside your transaction on Postgres.",
		},
	},
	"jobs": {
		Take: "Take a queue with one consumer a partition, or SELECT … FOR UPDATE SKIP LOCKED on a table of jobs.",
		Why:  []string{"A queue already has an order and retries, and the job of a worker that dies becomes available again."},
	},
}

// fences says how the token is checked, by the place of the data.
var fences = map[string]string{
	"postgres": "Check the token in each transaction, before its first read: package fence/fencepg, or fence/fencesql with database/sql.",
	"sql":      "Check the token in each transaction, before its first read: UPDATE … SET fence = $1, claims = claims + 1 WHERE id = $2 AND fence <= $1, and no row changed means too late (MySQL counts rows that change, hence claims). Package fence/fencesql does it on Postgres.",
	"redis":    "Check the token before the first read and in each write: package fence/fenceredis, whose script compares all 64 bits.",
	"etcd":     "Check the token before the first read and in each Txn: package fence/fenceetcd.",
	"own":      "Check the token before the first read and in each write, in one step with it: implement fence.Guard, and run fence/fencetest on it.",
	"foreign":  "In another company's system nobody checks a token, so no lock can keep a late request out. Send an id that they accept once (an idempotency key). A fenced table of what is to be sent (an outbox) makes sure that one decision is recorded; its sender may still send it twice, so the id is needed there as well. Without an id you can only make a late request rare: look at lease.Err() before each one, and give it the lease's context and a short timeout.",
}

// Advise follows the flow to its end. The answers must be complete ([Next] returns no question).
// all contains the guarantees of the backends to choose from, and needs contains requirements in
// addition to the answers. If no backend is good enough, the error says why.
func Advise(a Answers, all []locker.Guarantees, needs ...locker.Requirement) (Advice, error) {
	if !needsLock(a) {
		return noLock[a["work"][0]], nil
	}
	if !amongProcesses(a) {
		return Advice{Take: "Take a sync.Mutex.", Why: []string{"One process needs no lock service. membackend is the same as this library's interface, for tests."}}, nil
	}
	var advice Advice
	purpose := locker.Efficiency
	if forCorrectness(a) {
		purpose = locker.Correctness
		for _, place := range a["data"] {
			advice.Also = append(advice.Also, fences[place])
		}
		if n := len(a["data"]); n > 2 || n == 2 && !a.has("data", "foreign") {
			advice.Also = append(advice.Also, "Check the token at each place that can check it: one place doesn't refuse a late write to another.")
		}
	}
	scope := locker.ScopeMachine
	if onNetwork(a) {
		scope = locker.ScopeNetwork
	}
	more := len(needs) > 0
	needs = append([]locker.Requirement{scope}, needs...)
	required := locker.Requirement(purpose)
	good, refused := meet(all, append(needs, purpose)...)
	running := func(g locker.Guarantees) bool {
		return !onNetwork(a) || a.has("have", g.Backend) || a.has("data", g.Backend)
	}
	best, found := pick(good, running)
	switch fenced, _ := meet(all, append(needs, locker.FencingUntilDataLoss)...); {
	case found && running(best):
		switch {
		case onNetwork(a):
			advice.Why = append(advice.Why, "You run it already.")
		case best.Backend == "file":
			advice.Why = append(advice.Why, "There is nothing to run: the kernel keeps the lock, and frees it when its holder's process ends.")
		default:
			advice.Why = append(advice.Why, "You have to run it: locks in files, which need no service, don't promise what you require.")
		}
	case purpose == locker.Correctness && !a.has("data", "foreign") && slices.ContainsFunc(fenced, running):
		// The storage refuses writes of stale holders, so the lock need not be perfect.
		weaker, _ := pick(fenced, running)
		advice.Why = append(advice.Why, fmt.Sprintf("You run it already. By itself it isn't good enough for correctness (%s). The storage that checks its tokens makes up for that: it refuses the writes of stale holders.",
			reason(purpose.Check(weaker))))
		if found {
			advice.Why = append(advice.Why, fmt.Sprintf("If the data must be safe even when the tokens fail, run %s: it meets locker.Correctness.", best.Backend))
		}
		best, found = weaker, true
		required = locker.FencingUntilDataLoss
	case found:
		advice.Why = append(advice.Why, "You have to run it: you run nothing yet, or nothing that is good enough.")
	}
	if !found {
		return Advice{}, fmt.Errorf("no backend is good enough: %w", errors.Join(refused...))
	}
	url, also := operate(best)
	advice.Backend, advice.URL, advice.Also = best.Backend, url, append(advice.Also, also...)
	advice.Require = distinct(append([]locker.Requirement{required}, needs...))
	advice.Take = "Take " + best.Backend + "."
	switch {
	case purpose == locker.Efficiency && more:
		advice.Why = append(advice.Why, "To save work any backend is good enough that promises what you require, so the simplest of these to run is the best one.")
	case purpose == locker.Efficiency:
		advice.Why = append(advice.Why, "To save work any backend is good enough, so the simplest one to run is the best one.")
	case purpose.Check(best) == nil:
		advice.Why = append(advice.Why, fmt.Sprintf("Its exclusion rests on %v, its tokens are durable: it meets locker.Correctness.", best.Exclusion))
	}
	advice.Not = notPromised(best)
	if a.has("data", "postgres") && len(a["data"]) == 1 && best.Backend == "postgres" {
		advice.Also = append(advice.Also, "If all the work is in that one database, a row lock in your own transaction is simpler still.")
	}
	return advice, nil
}

// meet returns the guarantees that meet all needs, if need be with a replica that takes over, and
// for each of the others the reason why it doesn't.
func meet(all []locker.Guarantees, needs ...locker.Requirement) (good []locker.Guarantees, refused []error) {
	for _, g := range all {
		err := locker.Require(g, needs...)
		if err == nil {
			good = append(good, g)
		} else if pair, has := withFailover(g); has && locker.Require(pair, needs...) == nil {
			good = append(good, pair)
		} else {
			refused = append(refused, err)
		}
	}
	return good, refused
}

// pick prefers backends that are already running, and then those that cost less to run and need
// fewer round trips.
func pick(good []locker.Guarantees, running func(locker.Guarantees) bool) (best locker.Guarantees, found bool) {
	if len(good) == 0 {
		return best, false
	}
	rank := func(g locker.Guarantees) int {
		if running(g) {
			return 0
		}
		return 1
	}
	return slices.MinFunc(good, func(a, b locker.Guarantees) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.RoundTrips, b.RoundTrips))
	}), true
}

// reason returns the text of an error without the purpose at its beginning.
func reason(err error) string {
	if err == nil {
		return ""
	}
	_, why, found := strings.Cut(err.Error(), ": ")
	if !found {
		return err.Error()
	}
	return why
}

func distinct(reqs []locker.Requirement) []locker.Requirement {
	var once []locker.Requirement
	for _, r := range reqs {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	return once
}
