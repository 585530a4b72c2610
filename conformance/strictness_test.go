package conformance_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// TestStrictness has Lockers that a case must accept, or refuse, in the details in which it was once
// too strict or too lax.
func TestStrictness(t *testing.T) {
	noFence := claiming(func(g *locker.Guarantees) { g.Fencing, g.Restart = locker.FencingNone, locker.RestartNothing })
	for _, test := range []struct {
		what    string
		harness conformance.Harness
		cases   []string
		want    conformance.Verdict
	}{
		{"tokens that can't fence", toyHarness(flaws{randomToken: true}, noFence), []string{"B12", "J72", "J75"}, conformance.Passed},
		{"tokens that can't fence, and fall", memHarness(around(noFence, fallingTokens)), []string{"B12", "J66"}, conformance.Passed},
		{"tokens that fence, and fall", memHarness(fallingTokens), []string{"B12", "J66"}, conformance.Failed},
		{"tokens that can't fence, and are equal", toyHarness(flaws{equalTokens: true}, noFence), []string{"B12", "J72"}, conformance.Failed},
		{"Done is a little late", memHarness(onLease(lateDone)), []string{"F48.1", "F48.2"}, conformance.Passed},
		{"a look asks though its context is over", memHarness(asksFirst), []string{"J71"}, conformance.Failed},
		{"a grant is noticed late", memHarness(onAcquire(lateGranted)), []string{"C32.2", "C32.3", "C32.4"}, conformance.Passed},
		{"a list renews", memHarness(listRenews), []string{"J67"}, conformance.Failed},
	} {
		for _, id := range test.cases {
			t.Run(test.what+"/"+id, func(t *testing.T) {
				cases := conformance.Cases()
				c := cases[slices.IndexFunc(cases, func(c conformance.Case) bool { return c.ID == id })]
				if r := resultOf(t, inBubbles(test.harness), c); r.Verdict != test.want {
					t.Errorf("%v: %v, want %v\n%s", c, r.Verdict, test.want, r.Log)
				}
			})
		}
	}
}

// around makes one decorator of two.
func around(outer, inner decorator) decorator {
	return func() func(locker.Locker) locker.Locker {
		o, i := outer(), inner()
		return func(l locker.Locker) locker.Locker { return o(i(l)) }
	}
}

// fallingTokens counts down.
func fallingTokens() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	last := locker.Token(1 << 40)
	return onLease(func(lease locker.Lease) locker.Lease {
		mu.Lock()
		defer mu.Unlock()
		last--
		token := last
		return reread{lease, func() locker.Token { return token }}
	})()
}

// lateDone closes Done so late after the deadline that the service has let another in a moment before. Err
// is exact.
func lateDone(lease locker.Lease) locker.Lease {
	done := make(chan struct{})
	go func() {
		<-lease.Done()
		time.Sleep(15 * time.Millisecond)
		close(done)
	}()
	return doneLater{lease, done}
}

// lateGranted returns a lease with a minimum hold a third of a second after it has begun, as a busy
// machine does.
func lateGranted(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if req, _ := locker.Resolve(name, opts...); err == nil && req.MinHold > 0 {
		time.Sleep(time.Second / 3)
	}
	return lease, err
}

type doneLater struct {
	locker.Lease
	done chan struct{}
}

func (l doneLater) Done() <-chan struct{} { return l.done }

// asksFirst looks at the service before it looks at its arguments.
func asksFirst() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
			_, _ = locker.Inspect(context.WithoutCancel(ctx), l, name, locker.Look{})
			return locker.Inspect(ctx, l, name, look)
		}}
	}
}

// listRenews behaves as if each list restarted the TTL of a second of all leases.
func listRenews() func(locker.Locker) locker.Locker {
	var mu sync.Mutex
	var listed time.Time
	var last *locker.Party
	return func(l locker.Locker) locker.Locker {
		return looker{
			forwards: forwards{l},
			inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				s, err := locker.Inspect(ctx, l, name, look)
				mu.Lock()
				defer mu.Unlock()
				if s.Holder != nil {
					last = s.Holder
				} else if time.Since(listed) < time.Second {
					s.Holder = last
				}
				return s, err
			},
			list: func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
				mu.Lock()
				defer mu.Unlock()
				listed = time.Now()
				return locker.List(ctx, l, prefix, waiters)
			},
		}
	}
}
