package pgbackend_test

import (
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// restarted returns a Locker that knows the schema, and whose lease has ended since, because the server
// has gone. It comes back after change.
func restarted(t *testing.T, f *fake, change func(*fake)) (locker.Locker, locker.Lease) {
	t.Helper()
	l := open(t, f)
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	f.change(change)
	f.endAll("57P01")
	lost(t, lease, "57P01")
	return l, lease
}

// What a restore has dropped, and is about to bring back, isn't made again by a Locker that connects
// in between. It isn't needed there either: the next try finds what was restored.
func TestSchemaThatIsGone(t *testing.T) {
	for name, missing := range map[string][]string{
		"all":                         {"", "f", "f", "f"},
		"all but the schema":          {"", "t", "f", "f"},
		"the sequence":                {"", "t", "t", "t"},
		"the table, before any token": {"0", "t", "f", "t"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			l, _ := restarted(t, f, func(f *fake) { f.missing = missing })
			if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || !strings.Contains(err.Error(), "isn't made again") {
				t.Errorf("TryAcquire = %v, want an error that says that the schema isn't made again", err)
			}
			if n := f.statements("CREATE "); n != 0 {
				t.Errorf("%d statements have made something", n)
			}
			f.change(func(f *fake) { f.missing = nil })
			if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil {
				t.Errorf("TryAcquire after the restore = %v, want a lease", err)
			}
		})
	}
}

// A replica that has taken over, and lagged behind all that there is of locks, gets the schema.
func TestSchemaThatAReplicaHasMissed(t *testing.T) {
	f := newFake(t)
	l, lease := restarted(t, f, func(f *fake) { f.missing, f.promoted = []string{"", "f", "f", "f"}, 1 })
	next, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil || next.Token() <= lease.Token() {
		t.Errorf("TryAcquire = %v, %v, want a token above %v", next, err, lease.Token())
	}
	if n := f.statements("CREATE TABLE"); n != 1 {
		t.Errorf("tables were made %d times, want once", n)
	}
}

// But not where its timeline is no later than the epoch, which restores have raised: there the schema
// would begin with tokens that were given out.
func TestSchemaThatWouldBeginTooEarly(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.raised = 2 })
	l, _ := restarted(t, f, func(f *fake) { f.missing, f.promoted = []string{"", "f", "f", "f"}, 1 })
	if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || !strings.Contains(err.Error(), "isn't made again") {
		t.Errorf("TryAcquire = %v, want an error that says that the schema isn't made again", err)
	}
	if n := f.statements("CREATE "); n != 0 {
		t.Errorf("%d statements have made something", n)
	}
}

// A dump from before the first Locker has a row, and no epoch in it. That would begin again with the
// number of the timeline, unless that is a later one.
func TestEpochThatWouldBeginAgain(t *testing.T) {
	for promoted, begins := range []bool{false, true} {
		f := newFake(t)
		l, lease := restarted(t, f, func(f *fake) { f.raised, f.promoted = -1, promoted })
		next, err := locker.TryAcquire(t.Context(), l, "a")
		switch {
		case begins && (err != nil || next.Token() <= lease.Token()):
			t.Errorf("TryAcquire after a promotion = %v, %v, want a token above %v", next, err, lease.Token())
		case !begins && (err == nil || !strings.Contains(err.Error(), "no epoch has begun")):
			t.Errorf("TryAcquire = %v, want an error that says that no epoch has begun there", err)
		}
		if n := f.matching(fakeBegin); n > 0 != begins {
			t.Errorf("the epoch was written %d times, and there were %d promotions", n, promoted)
		}
	}
}

// A table of the epoch that is there gets no row from a Locker: a restore would add a second one.
func TestEpochWithoutARow(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.missing = []string{"", "t", "t", "t"} })
	open(t, f)
	if n := f.statements("INSERT INTO " + pgbackend.Quoted("locker") + ".locker_epoch"); n != 0 {
		t.Errorf("%d statements have added a row", n)
	}
	f.change(func(f *fake) { f.noEpoch = true })
	refused(t, f, nil, "has no row")
}

// A Locker that makes what is missing changes no table that is there: that would need its owner.
func TestTablesThatAreThere(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.missing = []string{"", "t", "t", "t"} })
	open(t, f)
	for _, what := range []string{"ALTER TABLE", "CREATE INDEX"} {
		if n := f.statements(what); n != 0 || !strings.Contains(pgbackend.Migration("locker"), what) {
			t.Errorf("%d statements have %s, want none", n, what)
		}
	}
}

// A table of leases from before Break gets the column from the migration.
func TestMigrationAddsTheColumnOfBreaches(t *testing.T) {
	const add = `ALTER TABLE "locker".locker_lease ADD COLUMN IF NOT EXISTS breach text;`
	sql := pgbackend.Migration("locker")
	if at := strings.Index(sql, add); at < 0 || at > strings.Index(sql, "CREATE INDEX") {
		t.Errorf("the migration doesn't add the column, or adds it after the index that needs it:\n%s", sql)
	}
}
