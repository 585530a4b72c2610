//go:build unix

package pg

import (
	"fmt"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// However many rows processes have left that were killed, nothing reads all of them: not a look, not the
// removal of old rows, and not Close. Renewals on the same connection would wait for that.
func TestPostgresManyOldRows(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	read := func() int {
		return admin[int](t, s, "select seq_tup_read::int from pg_stat_user_tables where relname = 'locker_lease'")
	}
	t.Cleanup(func() { s.exec(t, "truncate locker.locker_lease") })
	l := step.CloseAtEnd(t, s.open(t)) // which makes the table
	s.exec(t, "insert into locker.locker_lease (key, presence, name, token, since, ttl, label, written)"+
		" select i, 4294967296 + i, 'old ' || i, i, now(), '30 s', '1795221171926 somebody', now() - interval '2 days' from generate_series(1, 200000) i")
	before := read()
	var leases []locker.Lease
	for i := range 20 {
		leases = append(leases, step.Acquire(t, l, fmt.Sprint(step.LockName(t), i), locker.WithTTL(labelTTL), locker.WithHolder(fmt.Sprint("holder ", i))))
	}
	for i, lease := range leases {
		described(t, l, lease, fmt.Sprint("holder ", i))
	}
	listed := 0
	for one, err := range locker.List(t.Context(), l, "", 0) {
		if err != nil || one.Holder == nil || one.Holder.Token == 0 {
			t.Fatalf("List shows %+v, %v", one, err)
		}
		listed++
	}
	if listed != len(leases) {
		t.Errorf("List shows %d locks, want %d", listed, len(leases))
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if n := admin[int](t, s, "select count(*) from locker.locker_lease where presence = 4294967296 + key and key between 1 and 200"); n != 0 {
			return fmt.Errorf("%d of the oldest rows are left", n)
		}
		return nil
	})
	for _, lease := range leases {
		step.WantLive(t, lease, l)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	step.Eventually(t, itest.ShortWait, func() error { // a connection that has ended has counted all
		if n := admin[int](t, s, "select count(*) from pg_locks where locktype = 'advisory'"); n != 0 {
			return fmt.Errorf("%d locks are left", n)
		}
		return nil
	})
	if rows := read() - before; rows != 0 {
		t.Errorf("%d rows were read without an index", rows)
	}
}
