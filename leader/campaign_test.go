package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

// chronicle notes who leads, and that nobody else does.
type chronicle struct {
	t     *testing.T
	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // of the leader
	last  leader.Term
	who   []int
	began chan struct{}
}

func (c *chronicle) begin(ctx context.Context, who int, t leader.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil && c.ctx.Err() == nil {
		c.t.Errorf("term %d of candidate %d begins while candidate %d leads", len(c.who), who, c.who[len(c.who)-1])
	}
	if t.Number <= c.last.Number {
		c.t.Errorf("term %v comes after %v", t.Number, c.last.Number)
	}
	c.ctx, c.last, c.who = ctx, t, append(c.who, who)
	c.began <- struct{}{}
}

func (c *chronicle) leads() (who int, t leader.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.who[len(c.who)-1], c.last
}

// TestCampaign ends terms in all ways. No two leaders lead at the same time.
func TestCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const candidates, terms = 5, 200
		s := membackend.NewServer()
		c := &chronicle{t: t, began: make(chan struct{}, 2*terms)}
		sites := make([]site, candidates)
		abandon := make([]chan error, candidates)
		for i := range sites {
			sites[i], abandon[i] = newSite(t, s), make(chan error, 1)
			start(t, sites[i], func(ctx context.Context, term leader.Term) error {
				c.begin(ctx, i, term)
				select {
				case err := <-abandon[i]:
					return err
				case <-ctx.Done():
				}
				time.Sleep(rand.N(2 * ttl)) // slow to stop
				return nil
			})
		}
		ends, heal := map[string]int{}, make([]*time.Timer, candidates)
		for range terms {
			<-c.began
			time.Sleep(rand.N(2 * ttl))
			who, term := c.leads()
			link := sites[who].link
			if heal[who] != nil {
				heal[who].Stop() // it would undo this fault
			}
			var how string
			switch rand.N(6) {
			case 0:
				how = "removed"
				s.Expire(office)
			case 1:
				how = "resigned"
				term.Resign()
			case 2:
				how = "returned"
				abandon[who] <- []error{nil, errService}[rand.N(2)]
			case 3:
				how = "cut"
				link.Cut()
			case 4:
				how = "replies cut"
				link.CutReplies()
			case 5:
				how = "late"
				link.Delay(10*time.Second, 10*time.Second)
			}
			ends[how]++
			heal[who] = time.AfterFunc(3*ttl, link.Heal)
		}
		t.Logf("ends of terms: %v", ends)
		for how, n := range ends {
			if n < 5 {
				t.Errorf("%s: %d", how, n)
			}
		}
	})
}

// Where the service keeps an order, those who have waited longest lead next.
func TestOrderAfterResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const candidates, terms = 5, 25
		s := membackend.NewServer()
		c := &chronicle{t: t, began: make(chan struct{}, terms)}
		for i := range candidates {
			start(t, newSite(t, s), func(ctx context.Context, term leader.Term) error {
				c.begin(ctx, i, term)
				<-ctx.Done()
				return nil
			})
		}
		for range terms {
			<-c.began
			time.Sleep(10 * time.Second) // longer than a rest
			_, term := c.leads()
			term.Resign()
		}
		synctest.Wait()
		if want := slices.Repeat([]int{0, 1, 2, 3, 4}, terms/candidates); !slices.Equal(c.who[:terms], want) {
			t.Errorf("leaders: %v", c.who)
		}
	})
}

// Current and Watch see each leader that leads for longer than the interval.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes, interval = 100, 10 * time.Second
		s := membackend.NewServer()
		watcher := newSite(t, s)
		if who, err := leader.Current(t.Context(), watcher.Locker, office); err != nil || who != (leader.Leader{}) {
			t.Errorf("Current = %+v, %v, and nobody leads", who, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []leader.Leader
		var failures []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for who, err := range leader.Watch(ctx, watcher.Locker, office, interval) {
				if err != nil {
					failures = append(failures, err)
					continue
				}
				seen = append(seen, who)
			}
		}()
		synctest.Wait()
		terms := make(chan leader.Term, 1)
		for i := range 3 {
			start(t, newSite(t, s), lead(terms), leader.WithIdentity(fmt.Sprint("candidate ", i)))
		}
		var want []leader.Leader
		for i := range changes {
			term := <-terms
			want = append(want, leader.Leader{Number: term.Number, Identity: fmt.Sprint("candidate ", i%3), Since: time.Now()})
			if who, err := leader.Current(t.Context(), watcher.Locker, office); err != nil || who.Number != term.Number || who.Identity != want[i].Identity {
				t.Errorf("Current = %+v, %v, want %+v", who, err, want[i])
			}
			time.Sleep(interval + 1)
			term.Resign()
		}
		s.Fail(errService)
		time.Sleep(3 * interval)
		s.Fail(nil)
		cancel()
		<-done
		if n := len(failures); n < 3 || n > 4 || !errors.Is(failures[0], errService) {
			t.Errorf("errors: %v", failures)
		}
		if len(seen) < changes+1 || seen[0] != (leader.Leader{}) {
			t.Fatalf("%d leaders were seen: %+v", len(seen), seen[:1])
		}
		for i, who := range seen[1 : changes+1] {
			if who.Number != want[i].Number || who.Identity != want[i].Identity || who.Since.Sub(want[i].Since).Abs() > time.Second {
				t.Errorf("change %d: %+v, want %+v", i, who, want[i])
			}
		}
	})
}

// What can't get better ends the iteration, and so does its reader.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := newSite(t, membackend.NewServer())
		for what, seq := range map[string]func(func(leader.Leader, error) bool){
			"a negative interval": leader.Watch(t.Context(), watcher.Locker, office, -1),
			"a bad name":          leader.Watch(t.Context(), watcher.Locker, "", 0),
			"no inspector":        leader.Watch(t.Context(), watcher, office, 0), // the site hides it
		} {
			n := 0
			for _, err := range seq {
				if n++; err == nil || n > 1 {
					t.Errorf("%s: %v, the %d. time", what, err, n)
				}
			}
		}
		began := time.Now()
		for _, err := range leader.Watch(t.Context(), watcher.Locker, office, 0) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range leader.Watch(ctx, watcher.Locker, office, 0) {
			if err != nil {
				t.Error(err)
			}
		}
		if since(began) != time.Minute {
			t.Errorf("the iteration ended after %v", since(began))
		}
	})
}
