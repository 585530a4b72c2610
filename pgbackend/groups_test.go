package pgbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func TestMessage(t *testing.T) {
	for want, c := range map[string]struct {
		kinds []string
		keys  []pgbackend.Key
	}{
		"SELECT 1, CASE WHEN pg_try_advisory_lock('5'::bigint) THEN nextval(7::regclass) END": {[]string{"take"}, []pgbackend.Key{5}},
		"SELECT 0, pg_advisory_unlock('5'::bigint), pg_advisory_unlock_shared('6'::bigint);":  {[]string{"give", "giveShared"}, []pgbackend.Key{5, 6}},
		"SELECT 0, pg_advisory_unlock_shared('5'::bigint), pg_advisory_unlock('5'::bigint);":  {[]string{"giveEither"}, []pgbackend.Key{5}},
		"SELECT 0, pg_advisory_unlock('6'::bigint);SELECT i, CASE WHEN k IS NULL THEN nextval(7::regclass) WHEN pg_try_advisory_lock(k) THEN nextval(7::regclass) END FROM (VALUES (1, '5'::bigint), (3, NULL::bigint)) t(i, k)": {
			[]string{"take", "give", "token"}, []pgbackend.Key{5, 6, 0}},
		"SELECT i, CASE WHEN k IS NULL THEN nextval(7::regclass) WHEN pg_try_advisory_lock(k) THEN nextval(7::regclass) END FROM (VALUES (2, '6'::bigint), (4, '8'::bigint)) t(i, k)": {
			[]string{"-take", "take", "-give", "take"}, []pgbackend.Key{5, 6, 7, 8}},
		"": {[]string{"-take", "-give"}, []pgbackend.Key{5, 6}},
	} {
		if got := pgbackend.Message(c.kinds, c.keys); got != want {
			t.Errorf("the message for %v is\n%s\nwant\n%s", c.kinds, got, want)
		}
	}
}

// What a connection costs, as docs/postgres.md says: a look, the settings, a function call, the
// objects, the epoch, the mark, and what is set last. A new Locker also looks at the lock table.
func TestStatementsOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if n := f.statements(""); n != 8+1 {
			t.Errorf("a new Locker has sent %d messages, want 9", n)
		}
		before := f.statements("")
		lease, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)) // on another connection
		if err != nil {
			t.Fatal(err)
		}
		if n := f.statements("") - before; n != 8+2 {
			t.Errorf("a connection and an acquisition have sent %d messages, want 10", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.endAll("57P01")
		synctest.Wait() // for those who hear of it
		before = f.statements("")
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil { // which makes the connection again
			t.Fatal(err)
		}
		if n := f.statements("") - before; n != 8+2 {
			t.Errorf("a connection that was made again, and an acquisition, have sent %d messages, want 10", n)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
