package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// elsewhere is another process: a Locker behind a network of its own.
type elsewhere struct {
	locker.Locker
	link *membackend.Link
	late time.Duration // from its stop to the last of its requests
}

func (p elsewhere) Stop() error {
	time.AfterFunc(p.late, p.link.Cut)
	return nil
}

func (p elsewhere) Kill() error { return p.Stop() }

func (p elsewhere) End() error {
	p.link.Heal()
	return p.Close()
}

func TestWake(t *testing.T) {
	for _, test := range []struct {
		late     time.Duration
		min, max float64
		note     bool
	}{
		{0, 6, 10.1, false}, // it was renewed last up to a third of the TTL before
		{12 * time.Second, 18, 22.1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(10*time.Second, 2*time.Millisecond)
			c := config(s)
			c.Hold = func(ctx context.Context, name string) (Process, error) {
				link := membackend.NewLink()
				l := membackend.New(membackend.WithServer(s.Server), membackend.WithLink(link), membackend.WithDefaultTTL(s.ttl))
				_, err := l.Acquire(ctx, name)
				return elsewhere{l, link, test.late}, err
			}
			r, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			s.wantNothing(t)
			if got := r.figure(t, "wake", "granted after its holder has stopped"); got < test.min || got > test.max {
				t.Errorf("the lock was granted after %v s, want %v to %v", got, test.min, test.max)
			}
			if got := r.figure(t, "wake", "TTL + slack"); got != 10.1 {
				t.Errorf("TTL + slack = %v, want 10.1", got)
			}
			if test.note {
				r.wantVerdict(t, Note, "after its holder had stopped, and the guarantees say 10.1s: ")
			} else if len(r.Verdicts) != 1 {
				t.Errorf("verdicts %+v, want one", r.Verdicts)
			}
		})
	}
}
