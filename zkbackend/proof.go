package zkbackend

import (
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// How long does a node of this session certainly exist?
//
// It exists as long as its session, and the leader ends a session when it has heard of no sign of
// life for the session's timeout. If the server that a client is connected with isn't the leader,
// it receives the client's requests and informs the leader: not with the requests that it passes
// on, but in its answers to the leader's pings, which come every half tick. So an acknowledged
// write proves that the session existed when the leader ordered the write, and nothing about the
// time after it: the write's own sign of life may wait at a server that is cut off before the next
// ping.
//
// What the write also proves is what came before it. A server sends the leader everything on one
// connection, in order. So when it has passed on a write that was acknowledged, the leader has
// received all earlier answers to its pings, with the signs of life that the server had by then.
// Hence the rule:
//
//	p            answer to p                           s              write acknowledged
//	│ request    │ a ping of the leader,               │ write        │
//	│ is sent    │ and the server's answer to the ping │ is sent      │
//	┼────────────┼─────────────────────────────────────┼──────────────┼───────▶ time
//	             │◀───────── relayDelay or more ──────▶│
//
//   - s is the moment at which a write was sent that a quorum has acknowledged;
//   - p is the moment at which the newest request was sent whose answer came at least relayDelay
//     before s. The server had the sign of life when it answered, has been pinged since, and has
//     informed the leader before it passed on the write;
//   - so the leader knows of a sign of life that was given at p or later, and ends the session at p
//     + timeout at the earliest, whatever happens to the client and its server after s.
//
// A request to connect, for the first time or again, needs no delay: the server asks the leader for
// the session before it answers, and the leader takes that as a sign of life. The write must be
// sent after that answer, because only the quorum's acknowledgement proves that the leader was one.
//
// A lease with some TTL must last until s + TTL. For that, something is read on the session at
// least every readGap, and the servers are asked for a timeout that is longer than the TTL by
// relayDelay + readGap. Then p + timeout is normally no earlier; where it is earlier, it counts.
//
// What is assumed, apart from clocks that run at nearly the same speed:
//
//   - The leader pings its followers, and they answer, at most jitter later than they should, while
//     they order this client's writes; and connections between servers keep what is sent in order,
//     as TCP does. A leader that stops for longer, continues, acknowledges, and whose follower is
//     cut off at once, breaks this.
//   - A sign of life that a server has noted is in its next answer to the leader's pings. There is an
//     exception: the server replaces its table of signs of life by an empty one (getAndSet in
//     ZooKeeper's LearnerSessionTracker) while other threads write to it. A sign of life that goes
//     into the old table just after that was serialised never reaches the leader. The next read,
//     readInterval later at most, gives another one, which is in the new table. So if the server is
//     cut off in between, the base may be later than what is true, by up to one readInterval.
//   - Clients are connected with servers that follow the leader itself. An observer that follows a
//     follower (observerMasterPort) is pinged by that follower, and its signs of life reach the
//     leader one hop later: with a tick of 2 s or more, nothing of jitter is left then. Observers
//     that follow the leader are like followers.
//   - All servers have the same tickTime, minSessionTimeout and maxSessionTimeout. A server that
//     grants less when a client connects again makes the leader end the session earlier. Its answer
//     says so, and then all leases are lost at once (see session.Connected); but that answer may be
//     lost, if the server is cut off at this moment.
//
// A session is also over when the servers are silent for its timeout, and while it has nodes only
// answers to writes count (see silence.go of zkconn). Nodes of holders and waiters are renewed by
// writes, or deleted by writes, so a session with nodes has always sent one within the TTL. That
// ends no lease early: a lease counts from the moment at which an acknowledged write was sent, or
// an earlier one, for the TTL, and the timeout is longer. It is true for leases without renewal,
// too: they end before the session is over, and their removal is a write. Then the next acquisition
// opens another session, the waiters queue again there, and each owner removes what it may have
// left under the old session.

// margins are what the servers' tick means for a session.
type margins struct {
	relayDelay time.Duration // how long a server may keep a sign of life to itself
	readGap    time.Duration // how long nothing may be read on a session
}

// minJitter is the least that the servers' pings may be late: a garbage collection, a slow disk.
const minJitter = time.Second

func marginsOf(tick time.Duration) margins {
	jitter := max(tick/2, minJitter)
	return margins{relayDelay: tick/2 + jitter, readGap: tick / 2}
}

// readInterval is the longest pause between reads: less than readGap, so that a read that is a little
// late costs no lease anything.
func (m margins) readInterval() time.Duration { return m.readGap * 3 / 4 }

// holdAfter is how long a server may leave requests unanswered before it is sent no further ones.
func (m margins) holdAfter() time.Duration { return m.readGap - m.readInterval() }

// timeout is the session timeout that the servers are asked for.
func (m margins) timeout(ttl time.Duration) time.Duration {
	return roundUp(ttl + m.relayDelay + m.readGap)
}

// longestTTL is the longest TTL with the longest timeout that the servers grant.
func (m margins) longestTTL(timeout time.Duration) time.Duration {
	return timeout - m.relayDelay - m.readGap
}

// slack is how much later than the TTL a silent holder's lock is free. When answers begin to fail,
// the client sends one more read, and then holds requests back. The servers count the timeout from
// the last sign of life; they learn of it up to half a tick late, and end sessions on a grid of
// ticks.
func (m margins) slack(tick time.Duration) time.Duration {
	last := m.readInterval() + m.holdAfter()
	return last + m.timeout(0) + tick*3/2
}

// roundUp rounds up to whole milliseconds, ZooKeeper's unit.
func roundUp(d time.Duration) time.Duration { return kit.TTLBounds{Unit: time.Millisecond}.RoundUp(d) }

// proof is what the servers' answers prove about a session. Answers are stamped by driver.Now, so
// that no stamp is too early, and requests by driver.Stamp, before they are sent.
type proof struct {
	relayDelay time.Duration
	timeout    time.Duration
	excess     time.Duration // how much longer than the TTL the timeout is

	signs []signOfLife   // oldest first
	base  driver.Instant // of all leases: the latest that was proved
}

// signOfLife is a request that was answered.
type signOfLife struct {
	sent   driver.Instant
	counts driver.Instant // for writes that are sent at this moment or later
}

// newProof begins the proof for a session whose creation was requested at created. To create a
// session is a write.
func newProof(m margins, ttl time.Duration, created driver.Instant) *proof {
	excess := m.timeout(ttl) - ttl
	return &proof{
		relayDelay: m.relayDelay,
		timeout:    ttl + excess,
		excess:     excess - excess/100, // the allowance for clocks; the engine has the one for the TTL
		base:       created,
	}
}

// connected notes the answer to a request to connect.
func (p *proof) connected(sent, answered driver.Instant) { p.add(signOfLife{sent, answered}) }

// answered notes the answer to any other request. One in ten milliseconds is enough.
func (p *proof) answered(sent, answered driver.Instant) {
	if n := len(p.signs); n == 0 || sent.Sub(p.signs[n-1].sent) >= 10*time.Millisecond {
		p.add(signOfLife{sent, answered.Add(p.relayDelay)})
	}
}

func (p *proof) add(s signOfLife) {
	old := 0 // those that can't prove anything any more
	for old < len(p.signs) && p.signs[old].sent.Add(p.timeout) < s.sent {
		old++
	}
	p.signs = append(p.signs[old:], s)
}

// wrote notes that a write that was sent at sent is acknowledged. What was proved before remains
// true.
func (p *proof) wrote(sent driver.Instant) {
	for _, s := range p.signs {
		if s.counts <= sent {
			p.base = max(p.base, min(sent, s.sent.Add(p.excess)))
		}
	}
}
