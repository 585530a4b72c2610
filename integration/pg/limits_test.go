//go:build unix

package pg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// The server's lock table is everybody's. The locks of a Locker stop at half of it, with an error
// that names what to raise; others go on, and no further Locker is opened.
func TestPostgresLockTable(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const half = smallLocks / 2
	l, other := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	base := step.LockName(t)
	leases, _ := fill(t, l, smallLocks)
	_, err := locker.TryAcquire(t.Context(), l, base)
	t.Logf("%d leases, and then TryAcquire = %v", len(leases), err)
	fullTable(t, err)
	if n := len(leases); n != half {
		t.Errorf("%d leases were granted on a server with room for %d locks, want half of them", n, smallLocks)
	}
	itest.RefusedAtOpen(t, s.URL, "max_locks_per_transaction")
	s.exec(t, "create table others (a text primary key, b text unique, c text unique)", "insert into others values ('a', 'b', 'c')", "drop table others")
	step.FreeWithin(t, itest.ShortWait, other, base) // it was opened before, and counts its own
	for _, lease := range leases {
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatalf("Renew = %v, want nil", err)
		}
	}
	for _, lease := range leases[half/2:] {
		step.Release(t, lease)
	}
	for _, l := range []locker.Locker{l, other, step.CloseAtEnd(t, s.open(t))} {
		step.FreeWithin(t, itest.ShortWait, l, base)
	}
}

// Each of several Lockers may have half of the table, so together they can fill it. Then the
// server's error is named like the Locker's own, the leases that exist go on and are released, and
// there is room again. The number of a Locker doesn't depend on what it has had before.
func TestPostgresLockTableOfMany(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	const half = smallLocks / 2
	for name, before := range map[string]int{"unused": 0, "idle": 1, "used": half} { // locks that each has had
		t.Run(name, func(t *testing.T) {
			s.clear(t)
			var lockers []locker.Locker
			for range 12 {
				lockers = append(lockers, step.CloseAtEnd(t, s.open(t)))
			}
			for _, l := range lockers {
				had, _ := fill(t, l, before)
				for _, lease := range had {
					step.Release(t, lease)
				}
			}
			slices.Reverse(lockers)
			var leases []locker.Lease
			for _, l := range lockers {
				of, err := fill(t, l, smallLocks)
				if len(of) > half {
					t.Errorf("one Locker has %d leases, want %d at most", len(of), half)
				}
				leases = append(leases, of...)
				fullTable(t, err) // the server itself may free an entry just after that
			}
			t.Logf("%d Lockers have %d leases, and there is room for %d locks", len(lockers), len(leases), smallLocks)
			if n := len(leases); n < half*3/4 {
				t.Errorf("%d leases were granted on a server with room for %d locks, want half of them at least", n, smallLocks)
			}
			for _, lease := range leases {
				if err := lease.Renew(t.Context()); err != nil {
					t.Fatalf("Renew with a full table = %v, want nil", err)
				}
			}
			for _, lease := range leases {
				step.Release(t, lease)
			}
			for _, l := range lockers {
				step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
			}
		})
	}
}

// fill acquires up to n locks, until there is an error.
func fill(t *testing.T, l locker.Locker, n int) (leases []locker.Lease, err error) {
	t.Helper()
	base := step.LockName(t)
	for i := range n {
		lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(base, "-", i))
		if err != nil {
			return leases, err
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// fullTable fails unless err says that the lock table is full, and not that somebody has the lock.
func fullTable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, pgbackend.ErrLockTable) || errors.Is(err, locker.ErrHeld) || !strings.Contains(fmt.Sprint(err), "max_locks_per_transaction") {
		t.Errorf("with a full lock table: %v, want ErrLockTable and the setting's name", err)
	}
}

// TLS is as in the URL: checked with the authority that it names, or refused.
func TestPostgresTLS(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, []byte(pgCertificate), 0o600); err != nil {
		t.Fatal(err)
	}
	l := step.CloseAtEnd(t, itest.OpenURL(t, withParam(s.with("sslmode", "verify-full"), "sslrootcert", file)))
	lease := step.Acquire(t, l, step.LockName(t))
	if n := admin[int](t, s, "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) where usename = $1 and not ssl", pgUser); n != 0 {
		t.Errorf("%d of the Locker's sessions have no TLS", n)
	}
	step.WantLive(t, lease, step.CloseAtEnd(t, itest.OpenURL(t, s.with("sslmode", "require"))))
	step.Release(t, lease)
	itest.RefusedAtOpen(t, s.with("sslmode", "verify-full"), "certificate")
}

// A server that takes no more connections is an error that says so, and costs no lease.
func TestPostgresWithoutConnections(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, other := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	lease, obstacle := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.ShortTTL)), step.Acquire(t, other, step.LockName(t))
	s.exec(t, "alter role "+pgUser+" connection limit 2")
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" connection limit -1") })
	itest.RefusedAtOpen(t, s.URL, "too many connections")

	waiter := step.StartAcquire(t, l, obstacle.Name()) // without a connection to wait on
	step.Pass(t, 2*itest.ShortTTL)
	waiter.WantPending(t)
	step.WantLive(t, lease, other)
	step.Release(t, obstacle)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	step.Release(t, lease)
}

// A server that takes no writes by default gives no tokens, and says so when a Locker is opened.
func TestPostgresReadOnly(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	back := func() { s.exec(t, "alter system reset all", "select pg_reload_conf()") }
	t.Cleanup(back)
	s.exec(t, "alter system set default_transaction_read_only = on", "select pg_reload_conf()")
	itest.RefusedAtOpen(t, s.URL, "default_transaction_read_only")
	back()
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
}
