package pgbackend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func open(t *testing.T, f *fake, opts ...pgbackend.Option) *pgbackend.Locker {
	t.Helper()
	l, err := pgbackend.New(t.Context(), f.config(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// failing makes the statement about the epoch fail.
func failing(with string) func(*fake) {
	return func(f *fake) {
		f.before = func(sql string) string {
			if strings.Contains(sql, "pg_control_system") {
				return with
			}
			return ""
		}
	}
}

// lost waits for the loss of a lease, which names its cause.
func lost(t *testing.T, lease locker.Lease, says string) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done is open, and the session has ended")
	}
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), says) {
		t.Errorf("Err = %v, want ErrLost and %q", err, says)
	}
}

// The end of a connection is known at once, with the server's word for it, and the next acquisition
// works.
func TestEndOfTheSessionIsPushed(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for range 3 {
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.endAll("57P05")
		lost(t, lease, "57P05")
		if err := lease.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	}
}

// A server may end the session in the middle of a statement, in its own language; a pooler says
// less.
func TestLastWordIsHeard(t *testing.T) {
	for who, last := range map[string]*pgproto3.ErrorResponse{
		"a server":           {Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"},
		"a server in German": {Severity: "SCHWERWIEGEND", SeverityUnlocalized: "FATAL", Code: "57P01"},
		"a pooler":           {Severity: "FATAL", Code: "57P01"},
	} {
		f := newFake(t)
		l := open(t, f)
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) {
			f.last = last
			f.before = func(string) string { return "end" }
		})
		if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) || !strings.Contains(err.Error(), "57P01") {
			t.Errorf("%s ends the session: Renew = %v, want ErrLost that names the reason", who, err)
		}
		f.change(func(f *fake) { f.before = nil })
	}
}

// A connection that leads to another session than before has lost its locks, whatever it says
// otherwise.
func TestOtherSessionIsALoss(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	f.change(func(f *fake) {
		for c := range f.conns {
			c.pid++
		}
	})
	if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew = %v, want ErrLost", err)
	}
	lost(t, lease, "another session")
}

// Two names with one key are refused, not shared: the session would be granted the second as well.
func TestCollision(t *testing.T) {
	f := newFake(t)
	l, err := pgbackend.NewWithKeys(t.Context(), f.config(t), func(string, string, string) pgbackend.Key { return 5 })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, pgbackend.ErrCollision) || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of a name with the same key = %v, want ErrCollision", err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of the same name = %v, want ErrHeld", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The acquisition that was refused is removed in the background, and uses the name until then.
	_, err = locker.TryAcquire(t.Context(), l, "b")
	for end := time.Now().Add(10 * time.Second); errors.Is(err, pgbackend.ErrCollision) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, err = locker.TryAcquire(t.Context(), l, "b")
	}
	if err != nil {
		t.Errorf("TryAcquire when the other is released = %v, want a lease", err)
	}
}

// A statement that fails may have taken the lock before. It is given back, and nobody else of this
// Locker is granted it meanwhile.
func TestFailedStatementIsCleanedUp(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	other, err := locker.TryAcquire(t.Context(), l, "other") // so that the connection is kept
	if err != nil {
		t.Fatal(err)
	}
	before := f.matching(fakeGive)
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if fakeTry.MatchString(sql) {
				return "55P03 canceling statement due to lock timeout"
			}
			return ""
		}
	})
	if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire that failed = %v, want the server's error", err)
	}
	f.change(func(f *fake) { f.before = nil })
	for end := time.Now().Add(10 * time.Second); f.matching(fakeGive) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the statement may have taken was not given back")
		}
	}
	if err := other.Err(); err != nil {
		t.Errorf("the other lease: %v, want nil", err)
	}
}

func TestTTLs(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} { // and the default
		if _, err := locker.TryAcquire(t.Context(), l, ttl.String(), locker.WithTTL(ttl)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := locker.TryAcquire(t.Context(), l, "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "one more", locker.WithTTL(4*time.Second)); !errors.Is(err, locker.ErrTooManyTTLs) || errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with a fifth TTL = %v, want ErrTooManyTTLs", err)
	} else if outcome := locker.OutcomeOf(err); outcome != locker.OutcomeError { // it passes
		t.Errorf("OutcomeOf of a fifth TTL = %q, want \"error\"", outcome)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "short", locker.WithTTL(time.Millisecond)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("TryAcquire with a TTL of a millisecond = %v, want ErrOption", err)
	}
}

func TestLockTxName(t *testing.T) {
	f := newFake(t)
	l, err := pgbackend.New(t.Context(), f.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.LockTx(t.Context(), nil, ""); !errors.Is(err, locker.ErrName) {
		t.Errorf("LockTx without a name = %v, want ErrName", err)
	}
	if _, err := l.TryLockTx(t.Context(), nil, ""); !errors.Is(err, locker.ErrName) {
		t.Errorf("TryLockTx without a name = %v, want ErrName", err)
	}
}

// A transaction whose caller has a lease on the lock would wait for its caller.
func TestLockTxOfOwnLock(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	err := locker.Do(t.Context(), l, "a", func(ctx context.Context, _ locker.Lease) error {
		for what, lock := range map[string]func(ctx context.Context, tx pgx.Tx, name string) (locker.Token, error){"LockTx": l.LockTx, "TryLockTx": l.TryLockTx} {
			tx := &answeringTx{answers: slices.Repeat([]string{"granted"}, 3)}
			var named *locker.Error
			if _, err := lock(ctx, tx, "a"); !errors.Is(err, locker.ErrHeldByCaller) || !errors.As(err, &named) || named.Name != "a" || len(tx.answers) != 3 {
				t.Errorf("%s with the lease's context = %v, and %d requests, want ErrHeldByCaller without one", what, err, 3-len(tx.answers))
			}
			if _, err := lock(ctx, tx, "b"); err != nil {
				t.Errorf("%s of another lock = %v, want a token", what, err)
			}
			if _, err := lock(context.WithoutCancel(ctx), tx, "a"); err != nil { // the fake transaction grants whatever it is asked for
				t.Errorf("%s with a detached context = %v, want a token", what, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What Open returns is a *Locker, so that its further methods can be found.
func TestOpenReturnsALocker(t *testing.T) {
	f := newFake(t)
	l, err := locker.Open(t.Context(), "postgres://joe:sesame@"+f.addr+"/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, ok := l.(*pgbackend.Locker); !ok {
		t.Errorf("Open = a %T, want a *pgbackend.Locker", l)
	}
	if l, err := locker.Open(t.Context(), "postgres://joe@"+f.addr+"/d?ttl=1ns"); err == nil || l != nil {
		t.Errorf("Open that fails = %v, %v, want nil and an error", l, err)
	}
}
