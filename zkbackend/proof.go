package zkbackend

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver"
)

// How long does a node of ours surely stand?
//
// It stands as long as its session does, and the leader ends a session when it has not been told of a sign of life for
// the session's timeout. The server that a client is connected with, if that isn't the leader, hears the client and tells
// the leader: not with the requests that it passes on, but in its answers to the leader's pings, which come every half
// tick. So an acknowledged write proves that the session stood when the leader ordered it, and nothing of the time after:
// its own sign of life may wait at a server that is cut off before the next ping.
//
// What the write proves besides is what went before it. A server sends the leader everything on one connection, in order.
// So when it has passed a write on that was acknowledged, the leader has got every answer to a ping that it had sent
// earlier, and in these the signs of life that it had by then. Hence the rule:
//
//   - s is when a write was sent that a quorum has acknowledged;
//   - p is when the newest request was sent whose answer came at least "ship" before s. The server had the sign of life
//     when it answered, has been pinged since, and has told the leader before it passed the write on;
//   - so the leader has seen a sign of life that was given at p or later, and ends the session at p + timeout at the
//     earliest, whatever becomes of us and our server after s.
//
// A request to connect, or to connect again, needs no waiting: the server asks the leader for the session before it
// answers, and that counts for the leader as a sign of life. The write must be sent after that answer, for only the
// quorum's acknowledgement tells that the leader was one.
//
// A lease with some TTL is to last until s + TTL. To have that, something is read on the session every "beat", and the
// servers are asked for a timeout that is longer than the TTL by ship + beat: then p + timeout is no earlier, in the
// ordinary course of things, and where it is, it counts.
//
// What is assumed, apart from clocks that run at nearly the same speed:
//
//   - The leader pings its followers, and they answer, at most jitter later than they should while they order writes of
//     ours; and connections between servers keep what is sent in order, as TCP does. A leader that stops for longer
//     than that, goes on, acknowledges, and whose follower is cut off at once, breaks it.
//   - Clients are connected with servers that follow the leader itself. An observer that follows a follower
//     (observerMasterPort) is pinged by that follower, and its signs of life reach the leader a hop later: with a tick of
//     2 s or more, nothing of jitter is left then. Observers that follow the leader are like followers.
//   - All servers have the same tickTime, minSessionTimeout and maxSessionTimeout. A server that grants less as a client
//     connects again has the leader end the session that much earlier. The answer says so, and then all leases are lost at
//     once (see connected); but that answer may be lost, when that server is cut off at this moment.

// margins are what the servers' tick means for a session.
type margins struct {
	ship time.Duration // how long a server may keep a sign of life to itself
	beat time.Duration // how long nothing may be asked on a session
}

// hold is for how long requests are sent to a server that answers none.
func (m margins) hold() time.Duration { return m.beat - m.every() }

// minJitter is how late the servers' pings may be at least: a collection of garbage, a slow disk.
const minJitter = time.Second

func marginsOf(tick time.Duration) margins {
	jitter := max(tick/2, minJitter)
	return margins{ship: tick/2 + jitter, beat: tick / 2}
}

// slack is how much later than the TTL a silent holder's lock is free. Its client asks something once more when it has
// begun to get no answers, and holds back what comes after that. From the last sign of life the servers count the
// timeout; they hear of it up to half a tick late, and end sessions on a grid of ticks.
func (m margins) slack(tick time.Duration) time.Duration {
	last := m.every() + m.hold()
	return last + m.timeout(0) + tick*3/2
}

// timeout is what the servers are asked for.
func (m margins) timeout(ttl time.Duration) time.Duration { return roundUp(ttl + m.ship + m.beat) }

// longestTTL is what can be had with the longest timeout that the servers grant.
func (m margins) longestTTL(timeout time.Duration) time.Duration { return timeout - m.ship - m.beat }

// every is the pause between reads: less than a beat, so that one that is a little late costs no lease anything.
func (m margins) every() time.Duration { return m.beat * 3 / 4 }

// roundUp makes whole milliseconds of d, in which ZooKeeper counts.
func roundUp(d time.Duration) time.Duration {
	const ms = time.Millisecond
	if rest := d % ms; rest > 0 {
		d += ms - rest
	}
	return d
}

// proof is what the servers' answers say about a session. Its answers were stamped by driver.Now, so that none is too
// early, and its requests by driver.Stamp, before they were sent.
type proof struct {
	ship    time.Duration
	timeout time.Duration
	excess  time.Duration // by how much the timeout is longer than the TTL

	signs []sign         // of life, oldest first
	base  driver.Instant // the TTL counts from here: the best that was proved
}

type sign struct {
	sent   driver.Instant
	counts driver.Instant // for writes that are sent at this moment or later
}

// newProof is that of a session that was made by a request that was sent at created. Making a session is a write.
func newProof(m margins, ttl time.Duration, created driver.Instant) *proof {
	excess := m.timeout(ttl) - ttl
	return &proof{
		ship:    m.ship,
		timeout: ttl + excess,
		excess:  excess - excess/100, // the allowance for clocks; that for the TTL is the engine's
		base:    created,
	}
}

// connected takes in that a request to connect was answered.
func (p *proof) connected(sent, answered driver.Instant) { p.add(sign{sent, answered}) }

// answered takes in the answer to any other request. Of those that come thick and fast, one in ten milliseconds is enough.
func (p *proof) answered(sent, answered driver.Instant) {
	if n := len(p.signs); n == 0 || sent.Sub(p.signs[n-1].sent) >= 10*time.Millisecond {
		p.add(sign{sent, answered.Add(p.ship)})
	}
}

func (p *proof) add(s sign) {
	old := 0 // those that can't prove anything any more
	for old < len(p.signs) && p.signs[old].sent.Add(p.timeout) < s.sent {
		old++
	}
	p.signs = append(p.signs[old:], s)
}

// wrote takes in that a write which was sent at sent is acknowledged. What was proved before stays true.
func (p *proof) wrote(sent driver.Instant) {
	for _, s := range p.signs {
		if s.counts <= sent {
			p.base = max(p.base, min(sent, s.sent.Add(p.excess)))
		}
	}
}

// wrote takes in that the quorum acknowledged a write which was sent at sent, and returns from when leases count now. Once the
// session is over an answer counts for nothing, because the servers may be ending the session: see silence.go.
func (s *session) wrote(sent driver.Instant) (driver.Instant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return 0, zk.ErrClosing
	}
	s.proof.wrote(sent)
	return s.proof.base, nil
}

func (s *session) base() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof.base
}

// answered takes in that a read was answered just now.
func (s *session) answered(sent driver.Instant) {
	now := driver.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proof.answered(sent, now)
	s.heard = max(s.heard, sent)
}
