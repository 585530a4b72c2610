package pgbackend_test

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A later connection may lead elsewhere: what was found out on an earlier one need not be true
// there.

func TestPoolerThatChangesItsMode(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.keyPID = 7 })
	l := open(t, f)
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if strings.HasPrefix(sql, "BEGIN") {
				return "08P01 transaction blocks not allowed in statement pooling mode"
			}
			return ""
		}
	})
	f.endAll("57P01") // it is restarted
	lost(t, lease, "57P01")
	if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, pgbackend.ErrPooler) {
		t.Errorf("TryAcquire through a pooler that was restarted in another mode = %v, want ErrPooler", err)
	}
}

// Settings that a version doesn't know would be refused, and the connection with them.
func TestServerOfAnotherVersion(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for _, version := range []int{160000, 170000} {
		f.endAll("57P01")
		f.change(func(f *fake) {
			f.version = version
			f.before = func(sql string) string {
				if version < 170000 && strings.Contains(sql, "'transaction_timeout'") {
					return `42704 unrecognized configuration parameter "transaction_timeout"`
				}
				return ""
			}
		})
		before := f.statements("'transaction_timeout'")
		lease, err := l.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatalf("Acquire on version %d = %v", version, err)
		}
		_ = lease.Release(t.Context())
		if asked := f.statements("'transaction_timeout'") > before; asked != (version >= 170000) {
			t.Errorf("on version %d transaction_timeout was set: %v", version, asked)
		}
	}
}

// A later server may be too old.
func TestOlderServerThanAtFirst(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	f.endAll("57P01")
	f.change(func(f *fake) { f.version = 130020 })
	if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TryAcquire on Postgres 13 = %v, want ErrUnsupported", err)
	}
}

// From step 3 of its move on a lease is attached to the shared connection as well, because the
// waiter's may have given the lock back.
func TestEndOfTheSharedConnectionInAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		f.somebodyHas("a")
		var stalled atomic.Bool
		f.change(func(f *fake) {
			f.before = func(sql string) string { // the server stalls with the last step, and doesn't answer it; what it has done nobody knows
				if strings.HasPrefix(sql, "SELECT pg_advisory_unlock_shared(") {
					stalled.Store(true)
				}
				if stalled.Load() {
					return "silence"
				}
				return ""
			}
		})
		lease, err := l.Acquire(t.Context(), "a", locker.WithTTL(ttl))
		if err != nil {
			t.Fatalf("Acquire = %v, want a lease", err)
		}
		time.Sleep(ttl/3 + ttl/20)
		if !stalled.Load() {
			t.Fatal("the lease is not being moved: this test proves nothing")
		}
		before := f.connections()
		if _, err := locker.TryAcquire(t.Context(), l, "b", locker.WithTTL(ttl)); err == nil { // which finds the shared connection silent
			t.Error("TryAcquire on a silent connection = nil")
		}
		for c := range before {
			if !f.connections()[c] {
				t.Errorf("the connection of process %d was given up, and the lease may be attached to it", c.pid)
			}
		}
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want nil: both connections stand", err)
		}
		for c := range before {
			if c.ttl == strconv.FormatInt(ttl.Milliseconds(), 10) && c != f.waited {
				_ = c.Close() // the server ends the shared one
			}
		}
		synctest.Wait()
		if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Err when the connection has ended on which the lease may hang alone = %v, want ErrLost", err)
		}
		_ = l.Close()
	})
}
