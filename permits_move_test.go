package locker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// grantsLate grants one of the slots that are waited for when that wait is cancelled, as a service
// does whose grant is on its way then. Another one may panic.
type grantsLate struct {
	locker.Locker
	free           func(slot int) // makes a slot free
	grants, panics int            // which of the calls that are cancelled, from 1 on; 0: none

	mu        sync.Mutex
	cancelled int          // calls so far
	token     locker.Token // of that grant
}

func (g *grantsLate) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil || req.NoWait || req.Slot < 1 {
		return g.Locker.Acquire(ctx, name, opts...)
	}
	<-ctx.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.cancelled++; g.cancelled {
	case g.grants:
		g.free(req.Slot)
		lease, err := g.Locker.Acquire(context.WithoutCancel(ctx), name, append(slices.Clip(opts), locker.NoWait())...)
		if err == nil {
			g.token = lease.Token()
		}
		return lease, err
	case g.panics:
		panic("a defect of the locker")
	}
	return g.Locker.Acquire(ctx, name, opts...)
}

// A grant that comes just when the first in the line moves to the queues of other slots is its turn.
func TestPermitThatIsGrantedDuringTheMove(t *testing.T) {
	for _, tc := range []struct{ grants, panics int }{{1, 0}, {1, 2}, {2, 1}} {
		bubble(t, func(t *testing.T, s *membackend.Server) {
			const n = queuesOfTheFirst + 1
			other := openMem(t, s)
			held := make(map[int]locker.Lease)
			for _, lease := range tryPermits(t, other, n) {
				held[locker.Slot(lease)] = lease
			}
			free := func(slot int) {
				release(t, held[slot])
				delete(held, slot)
			}
			l := &grantsLate{Locker: openMem(t, s), free: free, grants: tc.grants, panics: tc.panics}
			func() {
				defer func() {
					if r := recover(); (r != nil) != (tc.panics > 0) {
						t.Errorf("recovered %v; call %d panics", r, tc.panics)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				lease, err := locker.AcquirePermit(ctx, l, "job", n)
				if err != nil {
					t.Fatal(err)
				}
				if lease.Token() != l.token {
					t.Errorf("the permit has token %v, want %v: the grant during the move was given back", lease.Token(), l.token)
				}
				release(t, lease)
			}()
			for _, lease := range held {
				release(t, lease)
			}
		})
	}
}
