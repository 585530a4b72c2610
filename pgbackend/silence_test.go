package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// What a server that says nothing must not lead to: a call that never returns, or a lock that is
// said to be held by somebody.

// answeringTx is a transaction of the caller's that gives these answers to the request for the
// lock.
type answeringTx struct {
	pgx.Tx
	answers []string
}

func (tx *answeringTx) QueryRow(context.Context, string, ...any) pgx.Row { return tx }

func (tx *answeringTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

func (tx *answeringTx) Scan(dest ...any) error {
	*(dest[0].(*string)), tx.answers = tx.answers[0], tx.answers[1:] //nolint:forcetypeassert // as tryTx asks
	return nil
}

// After a failover the connection to the earlier server may be silent, and nobody else asks on it.
func TestLockTxBesideASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		gone := f.connections()
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				for c := range gone {
					if f.conns[c] && sql == "SELECT pg_backend_pid()" {
						return "silence"
					}
				}
				return ""
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.LockTx(ctx, &answeringTx{answers: []string{"elsewhere", "granted"}}, "a"); err != nil {
			t.Errorf("LockTx = %v, want a token from the next connection", err)
		}
		_ = l.Close()
	})
}

// An acquisition that was given up without an answer still has its name: to the next one of this
// Locker that is no holder.
func TestSilenceIsNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.TryAcquire(t.Context(), l, "x"); err != nil { // so that the connection isn't given up
			t.Fatal(err)
		}
		f.silentAbout("")
		try := func(kind string, within time.Duration, acquire func(context.Context) (locker.Lease, error)) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			if _, err := acquire(ctx); err == nil || errors.Is(err, locker.ErrHeld) {
				t.Errorf("%s while the server is silent = %v, want an error that isn't ErrHeld", kind, err)
			}
		}
		tryAcquire := func(ctx context.Context) (locker.Lease, error) { return locker.TryAcquire(ctx, l, "a") }
		try("TryAcquire", 300*time.Millisecond, tryAcquire)
		try("TryAcquire just after another one", 300*time.Millisecond, tryAcquire)
		try("TryAcquire with time", time.Minute, tryAcquire)
		try("TryAcquire later", time.Second/2, tryAcquire)
		try("Acquire", 3*time.Second, func(ctx context.Context) (locker.Lease, error) { return l.Acquire(ctx, "a") })
		began := time.Now()
		if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) || time.Since(began) != 0 {
			t.Errorf("TryAcquire of a lock that this Locker has = %v after %v, want ErrHeld at once", err, time.Since(began))
		}
		_ = l.Close()
	})
}

// A server forgets a cancellation whose process hasn't read the statement yet. The next one counts.
func TestCancelledTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const forgotten = 3
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		f.somebodyHas("a")
		asked := 0
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				switch {
				case fakeWait.MatchString(sql):
					return "silence"
				case !fakeCancel.MatchString(sql):
					return ""
				}
				if asked++; asked <= forgotten {
					return "no"
				}
				return ""
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Acquire that was given up = %v, want DeadlineExceeded", err)
		}
		time.Sleep(time.Second)
		if n := f.statements("pg_cancel_backend"); n != forgotten+1 {
			t.Errorf("the wait was cancelled %d times, want %d: until it has an outcome", n, forgotten+1)
		}
		if n := f.statements("pg_terminate_backend"); n != 0 {
			t.Errorf("a session was ended by force")
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}

// A time limit of our own is not the caller's.
func TestCredentialsThatNeverCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		never := false
		config.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
			if never {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		never = true
		f.endAll("57P01")
		synctest.Wait()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryAcquire without credentials = %v, want an error that isn't the caller's deadline", err)
		}
		_ = l.Close()
	})
}

// The cause of a caller's context comes in addition to its error, and doesn't replace it.
func TestLockTxGivenUp(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	because := errors.New("because")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(because)
	f.silentAbout("nextval(") // the token
	_, err := l.LockTx(ctx, &answeringTx{answers: []string{"granted"}}, "a")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, because) {
		t.Errorf("LockTx of somebody who has given up = %v, want Canceled and its cause", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryLockTx(t.Context(), nil, "a"); !errors.Is(err, locker.ErrClosed) {
		t.Errorf("TryLockTx of a closed Locker = %v, want ErrClosed", err)
	}
}

// A connection that isn't made keeps only those waiting that want it, and all of them for the same
// time.
func TestConnectionThatIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config := piped(t)
		var hangs atomic.Bool
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		hangs.Store(true)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				_, err := locker.TryAcquire(t.Context(), l, fmt.Sprint("b", i), locker.WithTTL(time.Second))
				if after := time.Since(began); err == nil || after > 6*time.Second {
					t.Errorf("TryAcquire without a connection = %v after %v, want an error after 5 s", err, after)
				}
			})
		}
		synctest.Wait()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil || time.Since(began) != 0 {
			t.Errorf("TryAcquire on a connection that is there = %v after %v, want a lease at once", err, time.Since(began))
		}
		all.Wait()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
