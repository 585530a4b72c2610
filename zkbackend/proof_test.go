package zkbackend_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

const ms = driver.Instant(time.Millisecond)

func TestMargins(t *testing.T) {
	for _, tc := range []struct{ tick, ttl, ship, every, timeout time.Duration }{
		{2 * time.Second, 10 * time.Second, 2 * time.Second, 750 * time.Millisecond, 13 * time.Second},
		{500 * time.Millisecond, 4 * time.Second, 1250 * time.Millisecond, 187500 * time.Microsecond, 5500 * time.Millisecond},
		{4 * time.Second, 10 * time.Second, 4 * time.Second, 1500 * time.Millisecond, 16 * time.Second},
		{500 * time.Millisecond, 1500*time.Millisecond + 1, 1250 * time.Millisecond, 187500 * time.Microsecond, 3001 * time.Millisecond},
	} {
		ship, every, timeout := zkbackend.Margins(tc.tick, tc.ttl)
		if ship != tc.ship || every != tc.every || timeout != tc.timeout {
			t.Errorf("with a tick of %v and a TTL of %v: ship %v, every %v, timeout %v, want %v, %v, %v",
				tc.tick, tc.ttl, ship, every, timeout, tc.ship, tc.every, tc.timeout)
		}
	}
}

// With a tick of 2 s and a TTL of 10 s, a server may keep a sign of life for 2 s, and the session
// lasts for 13 s: 3 s longer than the lease, 2.97 s with the allowance for clocks. Moments are in
// milliseconds; the session was made at 0.
func TestProof(t *testing.T) {
	type step func(zkbackend.Proof)
	read := func(sent, answered driver.Instant) step {
		return func(p zkbackend.Proof) { p.Answered(sent*ms, answered*ms) }
	}
	connect := func(sent, answered driver.Instant) step {
		return func(p zkbackend.Proof) { p.Connected(sent*ms, answered*ms) }
	}
	write := func(sent driver.Instant) step { return func(p zkbackend.Proof) { p.Wrote(sent * ms) } }
	for _, tc := range []struct {
		what  string
		steps []step
		want  driver.Instant
	}{
		{"nothing: making the session was a write", nil, 0},
		{"reads prove nothing by themselves", []step{read(1000, 1010), read(5000, 5010)}, 0},
		{"nor does a connect", []step{connect(0, 20), connect(5000, 5020)}, 0},
		{"a write right after the connect", []step{connect(0, 20), write(20)}, 20},
		{"a write that was sent before the connect was answered", []step{connect(500, 520), write(519)}, 0},
		{"the connect alone carries for the excess", []step{connect(0, 20), write(2900)}, 2900},
		{"and no longer", []step{connect(0, 20), write(9000)}, 2970},
		{"a read that was answered long enough before", []step{connect(0, 20), read(6980, 7000), write(9000)}, 9000},
		{"a read that was answered a moment too late", []step{connect(0, 20), read(6980, 7001), write(9000)}, 2970},
		{"a read that was sent long before it was answered", []step{connect(0, 20), read(4000, 7000), write(9000)}, 6970},
		{"the newest that counts", []step{connect(0, 20), read(5000, 5010), read(6000, 6010), read(7000, 7010), read(8000, 8010), write(9000)}, 8970},
		{"reads that stopped", []step{connect(0, 20), read(3000, 3010), write(4000), write(5900), write(8000)}, 5970},
		{"a write that is older than what is proved", []step{connect(0, 20), read(5000, 5010), write(7500), write(7100)}, 7500},
		{"a write that was acknowledged after a later one", []step{connect(0, 20), read(5000, 5010), write(7100), write(2000)}, 7100},
		{"a connect counts at once, a read at the same time doesn't", []step{connect(0, 20), connect(7000, 7020), read(7030, 7040), write(7050)}, 7050},
	} {
		p := zkbackend.NewProof(2*time.Second, 10*time.Second, 0)
		for _, step := range tc.steps {
			step(p)
		}
		if got := p.Base(); got != tc.want*ms {
			t.Errorf("%s: base %v, want %v ms", tc.what, time.Duration(got), tc.want)
		}
	}
}

// A model of the servers: a follower that tells the leader of its clients in answer to pings, each
// a half tick after the last and up to jitter late, and of writes at once; a leader that ends
// sessions on a grid of ticks. At a random moment client and follower are cut off together. The
// lease must be over when the leader ends the session.
func TestProofIsNeverLate(t *testing.T) {
	const tick, ttl = 2 * time.Second, 10 * time.Second
	ship, every, timeout := zkbackend.Margins(tick, ttl)
	jitter := ship - tick/2
	worst, kept := time.Hour, 0
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1))
		upTo := func(d time.Duration) driver.Instant { return driver.Instant(random.Int64N(int64(d) + 1)) }
		trip := func() driver.Instant { return upTo(20 * time.Millisecond) }
		sent := trip()
		answered := sent + trip()
		p := zkbackend.NewProof(tick, ttl, sent)
		p.Connected(sent, answered)
		leader, follower := sent, sent // the last sign of life that each knows of
		cut := answered + upTo(time.Minute)
		nextPing, nextRead, nextWrite := answered+upTo(tick/2), answered+upTo(every), answered+upTo(time.Second)
		ping := nextPing // when the next one is answered
		lazy := random.IntN(2) == 0
		for {
			now := min(ping, nextRead, nextWrite)
			if now >= cut {
				break
			}
			switch now {
			case ping:
				leader = max(leader, follower)
				nextPing += driver.Instant(tick / 2)
				ping = nextPing
				if random.IntN(2) == 0 {
					ping += driver.Instant(jitter)
				}
			case nextRead:
				there, back := trip(), trip()
				follower = now + there
				if lazy { // the server had got it long before it answered, and the touch is as old as that
					follower = now
				}
				p.Answered(now, now+there+back)
				nextRead = now + driver.Instant(every) + upTo(50*time.Millisecond)
				if random.IntN(5) == 0 {
					nextRead += upTo(3 * time.Second)
				}
			case nextWrite: // acknowledged, or cut off meanwhile
				if now+2*trip() < cut {
					p.Wrote(now)
				}
				nextWrite = now + upTo(time.Second)
			}
		}
		ends := leader + driver.Instant(timeout) // on a grid: at this moment or later
		deadline := p.Base().Add(ttl)
		if deadline > ends {
			t.Fatalf("seed %d: the lease is trusted %v longer than the session lasts", seed, deadline.Sub(ends))
		}
		worst = min(worst, ends.Sub(deadline))
		if p.Base() > answered {
			kept++
		}
	}
	t.Logf("at least %v to spare", worst)
	if kept < 4000 || worst > 100*time.Millisecond {
		t.Errorf("%d leases were renewed, at least %v to spare: the model tests little", kept, worst)
	}
}

func TestProofForgets(t *testing.T) {
	p := zkbackend.NewProof(2*time.Second, 10*time.Second, 0)
	for i := range driver.Instant(10_000) {
		p.Answered(i*750*ms, (i*750+10)*ms)
	}
	if n := p.Signs(); n > 30 {
		t.Errorf("%d signs of life are remembered, and the session lasts for 13 s", n)
	}
	for i := range driver.Instant(10_000) {
		p.Answered(9_999*750*ms+i, 9_999*750*ms+i+10*ms)
	}
	if n := p.Signs(); n > 30 {
		t.Errorf("%d signs of life are remembered, most of which came within ten microseconds", n)
	}
	p.Wrote(9_999 * 750 * ms)
	if want := 9_999 * 750 * ms; p.Base() != want {
		t.Errorf("base %v, want %v", p.Base(), want)
	}
}
