package membackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// TestBrokenConnectionLosesThePlace: the driver reports it by lost and by Acquire, whether Acquire
// was waiting already or not.
func TestBrokenConnectionLosesThePlace(t *testing.T) {
	faults := []struct {
		name  string
		cause func(*membackend.Server, site)
	}{
		{"sever", func(_ *membackend.Server, l site) { l.Sever() }},
		{"restart", func(s *membackend.Server, _ site) { s.Restart() }},
	}
	for _, fault := range faults {
		for _, waiting := range []bool{true, false} {
			t.Run(fault.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := membackend.NewServer()
					one, two := newSite(t, s), newSite(t, s)
					first, _ := one.held(locker.Request{})
					second := two.queued(locker.Request{})
					if !waiting {
						fault.cause(s, two)
					}
					result := make(chan error, 1)
					go func() {
						_, err := second.Acquire(t.Context())
						result <- err
					}()
					synctest.Wait()
					if waiting {
						fault.cause(s, two)
						synctest.Wait()
					}
					if err := <-result; err == nil || errors.Is(err, locker.ErrHeld) {
						t.Errorf("Acquire = %v, want a failure", err)
					}
					if len(second.lost) == 0 {
						t.Error("lost was not called")
					}
					wantResidue(t, s, `"name" is held, and 0 wait`)
					if _, errs := one.renew(first.Lock); errs[0] != nil {
						t.Errorf("Renew of the holder = %v", errs[0])
					}
					mustRelease(t, first, second)
					wantResidue(t, s, "")
				})
			})
		}
	}
}

// TestCloseEndsTheConnection: calls under way return. The service notices when it can, and
// otherwise the places expire.
func TestCloseEndsTheConnection(t *testing.T) {
	const gone, stays = `"name" is held, and 0 wait`, `"name" is held, and 1 wait`
	nothing := func(*membackend.Server, site) {}
	tests := []struct {
		name        string
		fault, mend func(*membackend.Server, site)
		closed      string // what is left after Close
		after       string // and when the fault is over
	}{
		{"no fault", nothing, nothing, gone, gone},
		{"paused",
			func(s *membackend.Server, _ site) { s.Pause() },
			func(s *membackend.Server, _ site) { s.Resume() }, stays, gone},
		{"cut",
			func(_ *membackend.Server, l site) { l.Cut() },
			func(_ *membackend.Server, l site) { l.Heal() }, stays, stays},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := membackend.NewServer()
				one, two := newSite(t, s), newSite(t, s)
				first, _ := one.held(locker.Request{})
				waiter := two.queued(locker.Request{})
				tt.fault(s, two)
				pending := make(chan error, 1)
				go func() {
					_, err := waiter.Acquire(t.Context())
					pending <- err
				}()
				synctest.Wait()
				if err := two.Close(t.Context()); err != nil {
					t.Errorf("Close = %v", err)
				}
				if err := <-pending; err == nil {
					t.Error("Acquire = nil after Close, want an error")
				}
				wantResidue(t, s, tt.closed)
				tt.mend(s, two)
				wantResidue(t, s, tt.after)
				time.Sleep(ttl / 2)
				if _, errs := one.renew(first.Lock); errs[0] != nil {
					t.Fatalf("Renew = %v", errs[0])
				}
				time.Sleep(ttl / 2)
				synctest.Wait()
				wantResidue(t, s, gone)
				mustRelease(t, first)
			})
		})
	}
}
