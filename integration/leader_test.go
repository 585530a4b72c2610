//go:build unix

package integration

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
	redlocktest "github.com/fencedlock/locker/integration/redlock"
	zktest "github.com/fencedlock/locker/integration/zk"
	"github.com/fencedlock/locker/leader"
)

// electionServices are the services on which leaders are elected, and the TTL of their terms.
var electionServices = []struct {
	name    string
	ttl     time.Duration
	through func(*testing.T, itest.DialFunc) locker.Locker
}{
	{"redis", time.Second, func(t *testing.T, dial itest.DialFunc) locker.Locker {
		return redistest.Standalone(t).Dialled(t, dial)
	}},
	{"redlock", time.Second, func(t *testing.T, dial itest.DialFunc) locker.Locker {
		return redlocktest.Servers(t).Dialled(t, dial, redlocktest.LongestTTL)
	}},
	{"etcd", 2 * time.Second, func(t *testing.T, dial itest.DialFunc) locker.Locker {
		s := etcdtest.Cluster(t)
		return etcdtest.NewLocker(t, s.ConfigBy(dial, s.Config.Endpoints))
	}},
	{"zookeeper", 2 * time.Second, func(t *testing.T, dial itest.DialFunc) locker.Locker {
		s := zktest.Ensemble(t)
		return s.Through(t, dial, s.Addrs())
	}},
	{"postgres", 2 * time.Second, func(t *testing.T, dial itest.DialFunc) locker.Locker {
		return pgtest.CutTarget(pgtest.Standalone(t)).Through(t, dial)
	}},
}

// electionLimit is the longest time that an election may take, on a busy machine as well.
const electionLimit = time.Minute

// TestLeader cuts the leader off, again and again. The next one leads only when the context of the one before
// has ended. LOCKER_SOAK makes it 50 leaders on each service.
func TestLeader(t *testing.T) {
	itest.NeedServers(t)
	cuts := 3
	if os.Getenv("LOCKER_SOAK") != "" {
		cuts = 50
	}
	for _, s := range electionServices {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := &campaign{t: t, name: step.LockName(t), ttl: s.ttl, began: make(chan int, 1)}
			for range 3 {
				network := proxy.Start(t)
				c.networks = append(c.networks, network)
				c.stand(step.CloseAtEnd(t, s.through(t, network.Dial)))
			}
			who := c.next()
			for range cuts {
				step.Pass(t, rand.N(s.ttl/2))
				network := c.networks[who]
				[]func(){network.Cut, network.CutRequests, network.CutReplies}[rand.N(3)]()
				who = c.next()
				network.Heal()
			}
			t.Logf("%d leaders were cut off; from the end of a context to the next term: %v at least", len(c.margins), c.least().Round(time.Millisecond))
			if len(c.margins) < cuts {
				t.Errorf("%d leaders have followed another, want at least %d", len(c.margins), cuts)
			}
		})
	}
}

// campaign is an election with several candidates, each with a network of its own.
type campaign struct {
	t        *testing.T
	name     string
	ttl      time.Duration
	networks []*proxy.Network
	began    chan int // who has been elected

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of the last leader; nil: there was none
	ended   time.Time       // when it ended, once that is known
	number  locker.Token
	margins []time.Duration // from the end of a leader's context to the next term
}

// stand begins the candidacy of another candidate, until the test ends.
func (c *campaign) stand(l locker.Locker) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done, who := make(chan struct{}), len(c.networks)-1
	go func() {
		defer close(done)
		lead := func(ctx context.Context, term leader.Term) error {
			c.begin(ctx, term)
			select {
			case c.began <- who:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		}
		if err := leader.Run(ctx, l, c.name, lead, leader.WithTTL(c.ttl)); ctx.Err() == nil {
			c.t.Errorf("Run = %v", err)
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// begin notes a new term.
func (c *campaign) begin(ctx context.Context, term leader.Term) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if term.Number <= c.number {
		c.t.Errorf("term %v comes after %v", term.Number, c.number)
	}
	if before := c.ctx; before != nil {
		switch {
		case before.Err() == nil:
			c.t.Errorf("term %v begins, and the context of the one before hasn't ended", term.Number)
		case c.ended.IsZero(): // the goroutine that notes it hasn't run yet
			c.margins = append(c.margins, 0)
		default:
			c.margins = append(c.margins, now.Sub(c.ended))
		}
	}
	c.ctx, c.number, c.ended = ctx, term.Number, time.Time{}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ctx == ctx {
			c.ended = time.Now()
		}
	})
}

// next waits for the next leader.
func (c *campaign) next() (who int) {
	c.t.Helper()
	select {
	case who = <-c.began:
	case <-time.After(electionLimit):
		c.t.Fatalf("nobody was elected within %v", electionLimit)
	}
	return who
}

func (c *campaign) least() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := electionLimit
	for _, m := range c.margins {
		least = min(least, m)
	}
	return least
}

// TestLeaderThatWasStopped stops the process of a leader for longer than the TTL. The first time that it looks
// after that, it must know that it doesn't lead any more.
func TestLeaderThatWasStopped(t *testing.T) {
	itest.NeedServers(t)
	for _, s := range electionServices {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			url, name := serviceURL(t, s.name), step.LockName(t)
			p := itest.StartCandidate(t, url)
			first := process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: s.ttl})
			rival, err := leader.Stand(step.CloseAtEnd(t, itest.OpenURL(t, url)), name, leader.WithTTL(s.ttl))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = rival.Close() })
			look := make(chan process.Answer, 1)
			go func() {
				answer, _ := p.Do(t.Context(), process.Command{Verb: process.Look, Name: name, TTL: s.ttl})
				look <- answer
			}()
			step.Pass(t, s.ttl/2) // in which it looks again and again
			p.Stop()
			ctx, cancel := context.WithTimeout(t.Context(), electionLimit)
			defer cancel()
			term, err := rival.Wait(ctx)
			if err != nil || term.Number <= first.Token {
				t.Errorf("the rival's term is %v, %v, want a number above %v", term.Number, err, first.Token)
			}
			step.Pass(t, s.ttl) // so that the stop is longer than the TTL, whenever the last renewal was
			p.Continue()
			select {
			case answer := <-look:
				if !answer.Lost || answer.Token != 0 {
					t.Errorf("the first look of a leader that was stopped: %+v, want that it doesn't lead", answer)
				}
			case <-ctx.Done():
				t.Error("the process doesn't answer")
			}
		})
	}
}
