//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// pack is what Redlock must show beyond the suite.
func (s *redlockService) pack() []conformance.Case {
	return slices.Concat([]conformance.Case{
		{ID: "I1", Name: "minority-down-works", Run: s.minorityDown,
			Why: "that is what several servers are for: two of five may be gone, or hang, and nobody notices"},
		{ID: "I2", Name: "majority-down-fails-cleanly", Run: s.majorityDown,
			Why: "too few servers grant nothing, say so in time, and keep nothing of the attempts when the others are back"},
		{ID: "I3", Name: "rollback-reaches-all", Run: s.rollback,
			Why: "an attempt that got a minority must give it back, or nobody gets a majority until a TTL has passed"},
		{ID: "I4", Name: "split-votes-end", Run: s.splitVotes,
			Why: "several who ask at the same time can get some servers each; one of them must get ahead, again and again"},
		{ID: "I5", Name: "lease-survives-losing-servers-it-needs-not", Run: s.losingServers,
			Why: "a lease hangs on all servers that have agreed to it, not on the first three that have answered"},
		{ID: "I6", Name: "new-servers-wait", Run: s.newServers,
			Why: "a server without memory may have forgotten a lease; whoever waits gets the lock when that must be over, whoever doesn't is told why"},
		{ID: "I7", Name: "one-longest-ttl-for-all", Run: s.longestTTL,
			Why: "a server that waits for the longest TTL must know it; a Locker with longer leases would be let down"},
		{ID: "I8", Name: "mistakes-in-the-url-are-named", Run: s.mistakes,
			Why: "whoever reads the error must know what to correct, and on which server"},
		{ID: "I9", Name: "servers-are-independent", Run: s.sameServer,
			Why: "a server that is asked under two names has two votes"},
		{ID: "I10", Name: "script-flush-is-survived", Run: s.scriptFlush,
			Why: "an operator may empty the script cache at any time, and a restart does; no operation may fail for it"},
		{ID: "I11", Name: "killed-clients-cost-nothing", Run: s.clientsKilled,
			Why: "CLIENT KILL, a proxy and a firewall end connections; leases don't hang on them"},
		{ID: "I12", Name: "late-clock-costs-a-phase-and-no-order", Run: s.countersAhead,
			Why: "a client whose clock is behind the others' must get larger tokens than theirs all the same"},
		{ID: "I13", Name: "unfit-server-is-refused-at-open", Run: s.unfit,
			Why: "one server that drops keys when its memory is short, or is a replica, is a vote that can't be trusted"},
		{ID: "I14", Name: "release-leaves-the-next-its-place", Run: s.nextOfTheSameLocker,
			Why: "a Locker has one place in a lock's queue; the holder that lets go must not take away that of the next in its own process"},
	}, s.forgetPack())
}

// tidied is when a server that is back has nothing of those who have given up: a removal that has failed is tried again after 7.5 s
// at the latest. By itself what they have left would end with the TTL.
const tidied = redlockTTL - time.Second

// closers are closed together.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// calls adds up how often a server has carried some commands out, as it says in INFO commandstats.
func calls(commandstats string, commands ...string) (n int64) {
	stats := infoFields(commandstats)
	for _, command := range commands {
		count, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+command], "calls="), ",")
		if calls, err := strconv.ParseInt(count, 10, 64); err == nil {
			n += calls
		}
	}
	return n
}

// without takes some servers away until the function that it returns is called, or the case ends. They come back with their
// memory: a port that nobody listens on, or a server that hangs.
func (s *redlockService) without(t conformance.T, how string, nodes []*redisNode) (back func()) {
	t.Helper()
	stop, start := "pause", "unpause"
	if how == "gone" {
		stop, start = "stop", "start"
	}
	docker(t, ids(nodes), stop)
	over := false
	back = func() {
		if !over {
			over = true
			docker(t, ids(nodes), start)
			must(t, s.wait)
			if how == "gone" {
				s.trust(t, nodes)
			}
		}
	}
	t.Cleanup(back)
	return back
}

// trust has servers that were restarted take part at once: a case that is about something else need not wait for them.
func (s *redlockService) trust(t conformance.T, nodes []*redisNode) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		for _, n := range nodes {
			run, err := n.info(ctx, "server", "run_id")
			if err == nil {
				err = n.admin.Set(ctx, redlockMemory, fmt.Sprintf("%s 0 %d", run, redlockTTL.Milliseconds()), 0).Err()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *redlockService) minorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
		before := acquire(t, l, lockName(t), locker.WithTTL(shortTTL))
		back := s.without(t, how, s.nodes[1:3])
		pass(t, 2*shortTTL)
		held(t, before, other)
		lease := acquire(t, l, name, locker.WithTTL(shortTTL))
		next := wait(t, keep(t, s.open(t)), name) // is opened while they are away
		pass(t, 2*shortTTL)
		held(t, lease, other)
		next.pending(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("%s: Renew = %v, want nil", how, err)
		}
		release(t, lease)
		second := next.granted(t, soon)
		if second.Token() <= lease.Token() {
			t.Errorf("%s: token %d after %d", how, second.Token(), lease.Token())
		}
		release(t, second)
		release(t, before)
		began := time.Now()
		const rounds = 20
		for range rounds {
			free(t, 0, other, name)
		}
		if took := time.Since(began); took > soon {
			t.Errorf("%s: %d acquisitions and releases took %v: they wait for servers that are away", how, rounds, took)
		}
		back()
		eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
	}
}

func (s *redlockService) majorityDown(t conformance.T, _ *conformance.Harness) {
	for _, how := range []string{"gone", "hanging"} {
		l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
		free(t, 0, other, name) // and connects
		lease := acquire(t, l, name, locker.WithTTL(shortTTL))
		back := s.without(t, how, s.nodes[:3])
		for range 3 {
			err := refused(t, soon, other, lockName(t))
			if !strings.Contains(err.Error(), "no majority takes part: 3 of 5 servers don't") {
				t.Errorf("%s: TryAcquire = %v, want it to say how many servers took part", how, err)
			}
		}
		lost(t, shortTTL+soon, lease)
		if err := refused(t, soon, other, name); errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s: TryAcquire = %v", how, err)
		}
		back()
		eventually(t, tidied, func() error {
			if left := s.residue(t); left != "" {
				return errors.New("left on the servers: " + left)
			}
			return nil
		})
		free(t, soon, l, name)
	}
}

// block has somebody else hold a lock on some servers.
func (s *redlockService) block(t conformance.T, nodes []*redisNode, name string) (unblock func()) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		for i, n := range nodes {
			if err := n.admin.Set(ctx, redlockKey(name), fmt.Sprintf("somebody%d 0", i), far).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return func() {
		must(t, func(ctx context.Context) error {
			for _, n := range nodes {
				if err := n.admin.Del(ctx, redlockKey(name)).Err(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (s *redlockService) rollback(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	for blocked := 3; blocked <= 5; blocked++ {
		unblock := s.block(t, s.nodes[5-blocked:], name)
		if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("with %d servers taken, TryAcquire = %v, want ErrHeld", blocked, err)
		}
		eventually(t, soon, func() error { // an answer that came after the verdict is taken back behind the caller
			if owners := s.holders(t, name); len(owners) != blocked {
				return fmt.Errorf("of %d owners that hold a server each, %d are left with: %v", blocked, len(owners), owners)
			}
			return nil
		})
		unblock()
		free(t, 0, l, name)
	}

	// One that is slow answers after the attempt has failed.
	unblock := s.block(t, s.nodes[2:], name)
	docker(t, ids(s.nodes[:1]), "pause")
	_, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(shortTTL))
	docker(t, ids(s.nodes[:1]), "unpause")
	if err == nil {
		t.Errorf("TryAcquire = a lease, want an error")
	}
	unblock()
	eventually(t, soon, func() error {
		if owners := s.holders(t, name); len(owners) > 0 {
			return fmt.Errorf("%v hold a server", owners)
		}
		return nil
	})
	free(t, soon, l, name)
}

func (s *redlockService) splitVotes(t conformance.T, _ *conformance.Harness) {
	for _, contenders := range []int{2, 5} {
		name := lockName(t)
		var all []locker.Locker
		for range contenders {
			all = append(all, keep(t, s.open(t)))
		}
		back := s.without(t, "hanging", s.nodes[:1]) // four can be halved
		began := time.Now()
		const rounds = 30
		var last locker.Token
		for range rounds {
			var waiters []*waiting
			for _, l := range all {
				waiters = append(waiters, wait(t, l, name))
			}
			for len(waiters) > 0 {
				i := first(t, waiters, hang)
				lease := waiters[i].granted(t, 0)
				waiters = slices.Delete(waiters, i, i+1)
				if lease.Token() <= last {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				last = lease.Token()
				release(t, lease)
			}
		}
		back()
		took := time.Since(began)
		t.Logf("%d rounds of %d contenders took %v", rounds, contenders, took)
		if took > 2*hang {
			t.Errorf("%d rounds of %d contenders took %v", rounds, contenders, took)
		}
	}
}

func (s *redlockService) losingServers(t conformance.T, _ *conformance.Harness) {
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	for i := range s.nodes {
		lease := acquire(t, l, lockName(t), locker.WithTTL(shortTTL))
		two := []*redisNode{s.nodes[i], s.nodes[(i+2)%5]}
		back := s.without(t, "hanging", two)
		pass(t, 2*shortTTL)
		held(t, lease, other)
		release(t, lease)
		back()
	}
}

func (s *redlockService) newServers(t conformance.T, _ *conformance.Harness) {
	const longest = 3 * time.Second
	u := s.with("prefix", lockName(t)+":", "max_ttl", longest.String(), "ttl", "1s")
	l := keep(t, openURL(t, u))
	began := time.Now()
	if err := refused(t, soon, l, "a"); !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("TryAcquire = %v, want it to say that the servers may have forgotten leases", err)
	}
	lease := acquire(t, l, "a")
	if took := time.Since(began); took < longest-time.Second {
		t.Errorf("Acquire took %v, want it to wait for %v", took, longest)
	}
	release(t, lease)

	// A waiver counts only where no server knows anything.
	waiver := changed(u, addParam("new_cluster", "true"))
	s.forget(t, u, s.nodes[:3])
	lax := keep(t, openURL(t, waiver))
	_ = refused(t, soon, lax, "b")
	s.forget(t, u, s.nodes)
	fresh := keep(t, openURL(t, waiver))
	free(t, 0, fresh, "b")
}

func (s *redlockService) longestTTL(t conformance.T, _ *conformance.Harness) {
	refusedAtOpen(t, s.with("max_ttl", (2*redlockTTL).String()), "longest TTL", redlockTTL.String(), "max_ttl")
	l := keep(t, s.open(t))
	if _, err := locker.TryAcquire(t.Context(), l, lockName(t), locker.WithTTL(redlockTTL+1)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with more than the longest TTL = %v, want ErrOption", err)
	}

	// Servers that were told another one meanwhile grant nothing.
	u := s.with("prefix", lockName(t)+":", "max_ttl", "10s")
	must(t, func(ctx context.Context) error { return s.waive(ctx, u) })
	old := keep(t, openURL(t, u))
	free(t, 0, old, "a")
	s.forget(t, u, s.nodes)
	other := changed(u, setParam("max_ttl", "20s"))
	must(t, func(ctx context.Context) error { return s.waive(ctx, other) })
	if err := refused(t, soon, old, "a"); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "20s") {
		t.Errorf("TryAcquire = %v, want ErrOption, and the longest TTL of the servers", err)
	}
	free(t, 0, keep(t, openURL(t, other)), "a")
}

func (s *redlockService) mistakes(t conformance.T, h *conformance.Harness) {
	refusedAtOpen(t, h.BadURLs["port"], "connection refused", "0 of 5 servers can be reached")
	refusedAtOpen(t, h.BadURLs["password"], "WRONGPASS")
	refusedAtOpen(t, h.BadURLs["user"], "WRONGPASS")
	refusedAtOpen(t, h.BadURLs["database"], "DB index")
	refusedAtOpen(t, h.BadURLs["TLS"], "redlock://")
	refusedAtOpen(t, h.BadURLs["number"], "twice")

	// Each server with a URL of its own, and a mistake in one of them.
	var urls, wrong []string
	for i, n := range s.nodes {
		urls = append(urls, "redis://:"+redisPassword+"@"+n.addr)
		if i == 3 {
			wrong = append(wrong, "redis://:open-sesame@"+n.addr)
		} else {
			wrong = append(wrong, urls[i])
		}
	}
	free(t, 0, keep(t, openURL(t, serversURL(urls))), lockName(t))
	refusedServers(t, wrong, "WRONGPASS", s.nodes[3].addr)
}

func (s *redlockService) sameServer(t conformance.T, _ *conformance.Harness) {
	urls := []string{"redis://:" + redisPassword + "@" + strings.Replace(s.nodes[0].addr, "127.0.0.1", "localhost", 1)}
	for _, n := range s.nodes[:2] {
		urls = append(urls, "redis://:"+redisPassword+"@"+n.addr)
	}
	refusedServers(t, urls, "are one server", s.nodes[0].addr)
}

func (s *redlockService) scriptFlush(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(shortTTL))
	s.all(t, "script", "flush")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	waiter := wait(t, other, name)
	s.all(t, "script", "flush")
	pass(t, 2*shortTTL) // renewed in the background
	held(t, lease, other)
	waiter.pending(t)
	s.all(t, "script", "flush")
	release(t, lease)
	next := waiter.granted(t, soon)
	s.all(t, "script", "flush")
	release(t, next)
	s.all(t, "script", "flush")
	free(t, 0, l, name)
}

func (s *redlockService) clientsKilled(t conformance.T, _ *conformance.Harness) {
	const ttl = 3 * shortTTL // whose renewals fail each time
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(ttl))
	waiter := wait(t, other, name)
	for range 5 {
		s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
		s.all(t, "client", "kill", "type", "pubsub")
		pass(t, ttl/2)
		held(t, lease, keep(t, s.open(t)))
	}
	waiter.pending(t)
	s.all(t, "client", "kill", "type", "normal", "skipme", "yes")
	free(t, soon, l, lockName(t)) // a request on a connection that has ended may fail
	if err := lease.Release(t.Context()); err != nil {
		t.Logf("Release = %v", err)
	}
	release(t, waiter.granted(t, soon))
	free(t, soon, l, name)
}

// nextOfTheSameLocker has the same Locker hold a lock and wait for it, and another that came later.
func (s *redlockService) nextOfTheSameLocker(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	queue := func(want int) {
		t.Helper()
		eventually(t, soon, func() error {
			if n := s.waiters(t, name); n != want {
				return fmt.Errorf("%d wait, want %d", n, want)
			}
			return nil
		})
	}
	lease := acquire(t, l, name)
	for range 5 {
		next := wait(t, l, name)
		queue(1)
		later := wait(t, other, name)
		queue(2)
		release(t, lease)
		lease = next.granted(t, soon)
		later.pending(t)
		later.cancel()
		later.returned(soon)
		queue(0)
	}
	release(t, lease)
}

// countersAhead has the servers agree to tokens before, of a client whose clock is ahead.
func (s *redlockService) countersAhead(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	for _, ahead := range [][]time.Duration{
		{time.Minute, time.Minute, time.Minute, time.Minute, time.Minute},
		{0, time.Minute, 2 * time.Minute, 0, 0},
		{50 * time.Minute, 0, 50 * time.Minute, 0, 50 * time.Minute},
		{30 * time.Hour, 0, 0, 52 * time.Minute, 0}, // one is beyond what the others can be raised to
	} {
		var counters []int64
		must(t, func(ctx context.Context) error {
			counters = nil
			for i, n := range s.nodes {
				counter := time.Now().Add(ahead[i]).UnixMicro()
				counters = append(counters, counter)
				if err := n.admin.Set(ctx, redlockKey(name)+":token", counter, far).Err(); err != nil {
					return err
				}
			}
			return nil
		})
		var last locker.Token
		for range 10 {
			token := free(t, 0, l, name)
			if token <= last {
				t.Errorf("with counters ahead by %v: token %d after %d", ahead, token, last)
			}
			last = token
			above := 0
			for _, c := range counters {
				if int64(token) > c {
					above++
				}
			}
			if above < 3 {
				t.Errorf("with counters ahead by %v: token %d is above %d of the counters %d, want a majority", ahead, token, above, counters)
			}
		}
	}
}

func (s *redlockService) unfit(t conformance.T, _ *conformance.Harness) {
	one := s.nodes[2]
	do := func(args ...any) {
		t.Helper()
		must(t, func(ctx context.Context) error { return one.admin.Do(ctx, args...).Err() })
	}
	t.Cleanup(func() { do("config", "set", "maxmemory-policy", "noeviction") })
	do("config", "set", "maxmemory-policy", "allkeys-lru")
	refusedAtOpen(t, s.url, "allkeys-lru", one.addr)
	free(t, 0, keep(t, openURL(t, s.with("allow_eviction", "true"))), lockName(t))
	do("config", "set", "maxmemory-policy", "noeviction")

	t.Cleanup(func() { do("replicaof", "no", "one") })
	do("replicaof", "127.0.0.1", "1")
	refusedAtOpen(t, s.url, "replica", one.addr)
	do("replicaof", "no", "one")

	const acl = "joe"
	t.Cleanup(func() { s.all(t, "acl", "deluser", acl) })
	s.all(t, "acl", "setuser", acl, "on", ">secret-of-joe", "~*", "&*", "+@all")
	u := changed(s.url, setUser(acl, "secret-of-joe"))
	free(t, 0, keep(t, openURL(t, u)), lockName(t))
	for _, command := range []string{"zpopmin", "publish", "info", "set", "time", "subscribe", "eval"} {
		do("acl", "setuser", acl, "-"+command)
		refusedAtOpen(t, u, "permission", one.addr)
		do("acl", "setuser", acl, "+"+command)
	}
}
