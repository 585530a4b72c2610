//go:build unix

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// The server's lock table is everybody's. Locks stop at half of it, with an error that names what to raise; others go on. A Locker that
// had looked before may take an eighth more.
func TestPostgresLockTable(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	s.clear(t)
	const half = smallLocks / 2
	lockers := []locker.Locker{keep(t, s.open(t)), keep(t, s.open(t))}
	base := lockName(t)
	var leases []locker.Lease
	for _, l := range lockers {
		var err error
		for err == nil && len(leases) < smallLocks {
			var lease locker.Lease
			if lease, err = locker.TryAcquire(t.Context(), l, fmt.Sprint(base, "-", len(leases))); err == nil {
				leases = append(leases, lease)
			}
		}
		t.Logf("%d leases, and then TryAcquire = %v", len(leases), err)
		fullTable(t, err)
	}
	if n := len(leases); n < half*9/10 || n > half+half/8 {
		t.Errorf("%d leases were granted on a server with room for %d locks, want about half of them", n, smallLocks)
	}
	refusedAtOpen(t, s.url, "max_locks_per_transaction")
	s.exec(t, "create table others (a text primary key, b text unique, c text unique)", "insert into others values ('a', 'b', 'c')", "drop table others")
	for _, lease := range leases {
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatalf("Renew = %v, want nil", err)
		}
	}
	for _, lease := range leases[half/2:] {
		release(t, lease)
	}
	for _, l := range append(lockers, keep(t, s.open(t))) {
		free(t, soon, l, base)
	}
}

// Lockers that have looked at an empty table may go beyond half of it when others have filled it, but not far.
func TestPostgresLockTableOfMany(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	const half = smallLocks / 2
	for name, before := range map[string]int{"unused": 0, "idle": 1, "used": half} { // locks that each has had
		t.Run(name, func(t *testing.T) {
			s.clear(t)
			var lockers []locker.Locker
			for range 12 {
				lockers = append(lockers, keep(t, s.open(t)))
			}
			for _, l := range lockers {
				for _, lease := range fill(t, l, before) {
					release(t, lease)
				}
			}
			slices.Reverse(lockers) // the last one fills it, and then each of the others takes what it may
			n := 0
			for _, l := range lockers {
				n += len(fill(t, l, smallLocks))
				_, err := locker.TryAcquire(t.Context(), l, lockName(t))
				fullTable(t, err)
			}
			t.Logf("%d Lockers have %d leases, and there is room for %d locks", len(lockers), n, smallLocks)
			if n < half*3/4 || n > half*5/4 {
				t.Errorf("%d leases were granted on a server with room for %d locks, want about half of them", n, smallLocks)
			}
		})
	}
}

// fill acquires up to n locks, until there is an error.
func fill(t *testing.T, l locker.Locker, n int) (leases []locker.Lease) {
	t.Helper()
	base := lockName(t)
	for i := range n {
		lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(base, "-", i))
		if err != nil {
			break
		}
		leases = append(leases, lease)
	}
	return leases
}

// fullTable fails unless err says that the lock table is full, and not that somebody has the lock.
func fullTable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, pgbackend.ErrLockTable) || errors.Is(err, locker.ErrHeld) || !strings.Contains(fmt.Sprint(err), "max_locks_per_transaction") {
		t.Errorf("with a full lock table: %v, want ErrLockTable and the setting's name", err)
	}
}

// TLS is that of the URL: checked with the authority that it names, or refused.
func TestPostgresTLS(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	s.clear(t)
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, []byte(pgCertificate), 0o600); err != nil {
		t.Fatal(err)
	}
	l := keep(t, openURL(t, withParam(s.with("sslmode", "verify-full"), "sslrootcert", file)))
	lease := acquire(t, l, lockName(t))
	if n := admin[int](t, s, "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) where usename = $1 and not ssl", pgUser); n != 0 {
		t.Errorf("%d of the Locker's sessions have no TLS", n)
	}
	held(t, lease, keep(t, openURL(t, s.with("sslmode", "require"))))
	release(t, lease)
	refusedAtOpen(t, s.with("sslmode", "verify-full"), "certificate")
}

// A server that takes no more connections is an error that says so, and costs no lease.
func TestPostgresWithoutConnections(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	lease, obstacle := acquire(t, l, lockName(t), locker.WithTTL(shortTTL)), acquire(t, other, lockName(t))
	s.exec(t, "alter role "+pgUser+" connection limit 2")
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" connection limit -1") })
	refusedAtOpen(t, s.url, "too many connections")

	waiter := wait(t, l, obstacle.Name()) // without a connection to wait on
	pass(t, 2*shortTTL)
	waiter.pending(t)
	held(t, lease, other)
	release(t, obstacle)
	release(t, waiter.granted(t, soon))
	release(t, lease)
}

// A server that takes no writes by default gives no tokens, and says so when a Locker is opened.
func TestPostgresReadOnly(t *testing.T) {
	needServers(t)
	s := pgSmall(t)
	s.clear(t)
	back := func() { s.exec(t, "alter system reset all", "select pg_reload_conf()") }
	t.Cleanup(back)
	s.exec(t, "alter system set default_transaction_read_only = on", "select pg_reload_conf()")
	refusedAtOpen(t, s.url, "default_transaction_read_only")
	back()
	free(t, soon, keep(t, s.open(t)), lockName(t))
}
