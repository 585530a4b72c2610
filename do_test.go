package locker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

func TestTryAcquireDoesNotWait(t *testing.T) {
	l := &fakeLocker{err: locker.ErrHeld}
	shared := make([]locker.Option, 1, 8) // with room: the caller's options must not be written over
	shared[0] = locker.WithoutRenewal()
	if _, err := locker.TryAcquire(t.Context(), l, "name", shared...); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	if r := l.requests[0]; !r.NoWait || !r.NoRenewal {
		t.Errorf("request = %+v, want NoWait and the caller's option", r)
	}
	if shared[:2][1] != nil {
		t.Error("TryAcquire wrote into the caller's options")
	}
}

func TestDo(t *testing.T) {
	failed := errors.New("fn failed")
	unconfirmed := &locker.Error{Op: "release", Err: errors.New("connection refused")}
	for _, tc := range []struct {
		name    string
		fn      error
		lose    error
		release error
		want    []error
		wantNil bool
	}{
		{name: "all is well", wantNil: true},
		{name: "fn fails", fn: failed, want: []error{failed}},
		{name: "lost on the way", lose: lost("revoked"), release: lost("revoked"), want: []error{locker.ErrLost}},
		{name: "both", fn: failed, lose: lost("revoked"), release: lost("revoked"), want: []error{failed, locker.ErrLost}},
		{name: "release unconfirmed", release: unconfirmed, want: []error{unconfirmed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := newFakeLease()
				lease.releaseErr = tc.release
				err := locker.Do(t.Context(), &fakeLocker{lease: lease}, "name", func(ctx context.Context, l locker.Lease) error {
					if l.Token() != 7 || ctx.Err() != nil {
						t.Errorf("fn got token %v and a context with %v", l.Token(), ctx.Err())
					}
					if tc.lose != nil {
						lease.end(tc.lose)
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), locker.ErrLost) {
							t.Errorf("cause = %v, want ErrLost", context.Cause(ctx))
						}
					}
					return tc.fn
				})
				if tc.wantNil && err != nil {
					t.Errorf("Do = %v, want nil", err)
				}
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, want it to match %v", err, want)
					}
				}
				if lease.released != 1 {
					t.Errorf("released %d times, want 1", lease.released)
				}
			})
		})
	}
}

// An error of fn comes back as it is when the release is confirmed.
func TestDoReturnsTheErrorOfFn(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		if err := locker.Do(t.Context(), l, "name", func(context.Context, locker.Lease) error { return io.EOF }); err != io.EOF { //nolint:errorlint // as it is
			t.Errorf("Do = %#v, want io.EOF itself", err)
		}
		err := locker.DoAll(t.Context(), l, locker.Wants("a", "b", "c"), func(context.Context, *locker.LeaseSet) error { return io.EOF })
		if err != io.EOF { //nolint:errorlint // the same
			t.Errorf("DoAll = %#v, want io.EOF itself", err)
		}
	})
}

// fn may return the cause of its context's end, as the examples do. It is the error that Release
// returns as well.
func TestDoSaysOneCauseOnce(t *testing.T) {
	for what, wrap := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"wrapped":  func(err error) error { return fmt.Errorf("invoice 42: %w", err) },
	} {
		synctest.Test(t, func(t *testing.T) {
			lease := newFakeLease()
			gone := &locker.Error{Op: "lease", Err: lost("revoked")}
			lease.releaseErr = gone
			err := locker.Do(t.Context(), &fakeLocker{lease: lease}, "name", func(ctx context.Context, _ locker.Lease) error {
				lease.end(gone)
				<-ctx.Done()
				return wrap(context.Cause(ctx))
			})
			if !errors.Is(err, locker.ErrLost) || strings.Count(err.Error(), "revoked") != 1 {
				t.Errorf("%s: Do = %v, want ErrLost, and its cause once", what, err)
			}
		})
	}
}

// A function below Do finds the lease that Do has got, and the caller's own context has none.
func TestDoPutsItsLeaseIntoTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := locker.Do(t.Context(), &fakeLocker{lease: newFakeLease()}, "name", func(ctx context.Context, lease locker.Lease) error {
			if got, ok := locker.LeaseFrom(ctx); !ok || got != lease {
				t.Errorf("LeaseFrom = %v, %v, want the lease that fn got", got, ok)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestDoWithoutALease(t *testing.T) {
	err := locker.Do(t.Context(), &fakeLocker{err: locker.ErrHeld}, "name", func(context.Context, locker.Lease) error {
		t.Error("fn ran without a lease")
		return nil
	})
	if !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Do = %v, want ErrHeld", err)
	}
}

func TestDoReleasesOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newFakeLease()
		defer func() {
			if recover() == nil || lease.released != 1 {
				t.Errorf("the panic was swallowed, or the lease was released %d times instead of once", lease.released)
			}
		}()
		_ = locker.Do(t.Context(), &fakeLocker{lease: lease}, "name", func(context.Context, locker.Lease) error { panic("fn") })
	})
}
