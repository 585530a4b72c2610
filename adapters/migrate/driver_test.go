package migratelocker_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	databasetest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/fencedlock/locker"
	migratelocker "github.com/fencedlock/locker/adapters/migrate"
	"github.com/fencedlock/locker/membackend"
)

const lockName = "migrations/app"

var files = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("one")},
	"2_b.up.sql": {Data: []byte("two")},
	"3_c.up.sql": {Data: []byte("three")},
}

// stubDatabase is a stub that calls onRun before each migration.
type stubDatabase struct {
	*stub.Stub
	onRun func()
}

func (d stubDatabase) Run(migration io.Reader) error {
	if d.onRun != nil {
		d.onRun()
	}
	return d.Stub.Run(migration)
}

func newStub(t *testing.T) *stub.Stub {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*stub.Stub)
}

func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "stub", d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newLocker opens a Locker on server, which the test closes.
func newLocker(t *testing.T, server *membackend.Server) locker.Locker {
	l := membackend.New(membackend.WithServer(server))
	t.Cleanup(func() { l.Close() })
	return l
}

// The suite that golang-migrate has for drivers.
func TestDriver(t *testing.T) {
	l := newLocker(t, membackend.NewServer())
	databasetest.Test(t, migratelocker.Wrap(newStub(t), l, lockName), []byte("one"))
}

// A migration waits for the lock for as long as it was said, and says then that somebody else has it.
func TestWaits(t *testing.T) {
	for _, tc := range []struct {
		opts []migratelocker.Option
		wait time.Duration
	}{
		{nil, 10 * time.Second},
		{[]migratelocker.Option{migratelocker.WithWait(3 * time.Second)}, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, membackend.NewServer())
			held, err := l.Acquire(t.Context(), lockName)
			if err != nil {
				t.Fatal(err)
			}
			db := newStub(t)
			start := time.Now()
			err = newMigrate(t, migratelocker.Wrap(db, l, lockName, tc.opts...)).Up()
			if !errors.Is(err, database.ErrLocked) || !errors.Is(err, locker.ErrHeld) {
				t.Errorf("Up while the lock is held = %v, want ErrLocked and ErrHeld", err)
			}
			if took := time.Since(start); took != tc.wait {
				t.Errorf("Up waited for %v, want %v", took, tc.wait)
			}
			if len(db.MigrationSequence) > 0 {
				t.Errorf("applied without the lock: %v", db.MigrationSequence)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := newMigrate(t, migratelocker.Wrap(db, l, lockName)).Up(); err != nil {
				t.Errorf("Up when the lock is free = %v", err)
			}
			if want := []string{"one", "two", "three"}; !slices.Equal(db.MigrationSequence, want) {
				t.Errorf("applied %v, want %v", db.MigrationSequence, want)
			}
		})
	}
}

// capture is a Locker that keeps the last lease that it gave out.
type capture struct {
	locker.Locker
	lease   locker.Lease
	onGrant func()
}

func (c *capture) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := c.Locker.Acquire(ctx, name, opts...)
	c.lease = lease
	if c.onGrant != nil {
		c.onGrant()
	}
	return lease, err
}

// When the lease is lost in the middle of a migration, no further step begins, and the version stays
// dirty. (golang-migrate leaves a goroutine behind then, so this is no test for a bubble.)
func TestStopsWhenTheLeaseIsLost(t *testing.T) {
	server := membackend.NewServer()
	l := &capture{Locker: newLocker(t, server)}
	db := newStub(t)
	m := newMigrate(t, migratelocker.Wrap(stubDatabase{db, func() {
		if len(db.MigrationSequence) == 1 { // this is the second
			server.Expire(lockName)
			<-l.lease.Done()
		}
	}}, l, lockName))
	if err := m.Up(); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Up = %v, want %v", err, locker.ErrLost)
	}
	if want := []string{"one", "two"}; !slices.Equal(db.MigrationSequence, want) || db.CurrentVersion != 2 || !db.IsDirty {
		t.Errorf("applied %v, version %d, dirty %v, want %v, 2, dirty", db.MigrationSequence, db.CurrentVersion, db.IsDirty, want)
	}
	if sourceErr, err := m.Close(); sourceErr != nil || err != nil {
		t.Errorf("Close = %v, %v", sourceErr, err)
	}
}

// Each of the three methods that change the database looks at the lease.
func TestLostLeaseRefusesEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		db := newStub(t)
		d := migratelocker.Wrap(db, newLocker(t, server), lockName)
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		server.Expire(lockName)
		synctest.Wait()
		for what, err := range map[string]error{"Run": d.Run(nil), "SetVersion": d.SetVersion(7, false), "Drop": d.Drop(), "Unlock": d.Unlock()} {
			if !errors.Is(err, locker.ErrLost) {
				t.Errorf("%s = %v, want %v", what, err, locker.ErrLost)
			}
		}
		if db.CurrentVersion == 7 || len(db.MigrationSequence) > 0 {
			t.Errorf("the database was changed: version %d, %v", db.CurrentVersion, db.MigrationSequence)
		}
	})
}

// golang-migrate leaves a Lock running that is too late for it. Close gives the lock back in any case:
// while Lock waits, and when it has the lock.
func TestCloseGivesBackALateLock(t *testing.T) {
	for _, granted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, membackend.NewServer())
			held, err := l.Acquire(t.Context(), lockName)
			if err != nil {
				t.Fatal(err)
			}
			m := newMigrate(t, migratelocker.Wrap(newStub(t), l, lockName, migratelocker.WithWait(time.Hour)))
			if err := m.Up(); !errors.Is(err, migrate.ErrLockTimeout) {
				t.Errorf("Up = %v, want %v", err, migrate.ErrLockTimeout)
			}
			release := func() {
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			if granted {
				release()
			}
			if sourceErr, err := m.Close(); sourceErr != nil || err != nil {
				t.Errorf("Close = %v, %v", sourceErr, err)
			}
			if !granted {
				synctest.Wait()
				if s, ok := locker.StatsOf(l); !ok || s.Waiting > 0 {
					t.Errorf("after Close %d calls wait", s.Waiting)
				}
				release()
			}
			if _, err := locker.TryAcquire(t.Context(), l, lockName); err != nil {
				t.Errorf("after Close: %v, want the lock to be free", err)
			}
		})
	}
}

// A lock that was lost before it was given back keeps no later Lock out.
func TestLockAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		d := migratelocker.Wrap(newStub(t), newLocker(t, server), lockName)
		for range 2 {
			if err := d.Lock(); err != nil {
				t.Fatalf("Lock = %v", err)
			}
			if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
				t.Errorf("a second Lock = %v, want %v", err, database.ErrLocked)
			}
			server.Expire(lockName)
			synctest.Wait()
		}
	})
}

// A lock that is granted while Close runs is given back.
func TestCloseDuringTheGrant(t *testing.T) {
	l := &capture{Locker: newLocker(t, membackend.NewServer())}
	d := migratelocker.Wrap(newStub(t), l, lockName)
	l.onGrant = func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("Lock = %v, want %v", err, database.ErrLocked)
	}
	if !errors.Is(l.lease.Err(), locker.ErrReleased) {
		t.Errorf("the lease's Err = %v, want %v", l.lease.Err(), locker.ErrReleased)
	}
}

// Close while a migration is under way gives the lock back when that has ended, and the next one doesn't begin.
func TestCloseDuringAMigration(t *testing.T) {
	l := newLocker(t, membackend.NewServer())
	db := &stubDatabase{Stub: newStub(t)} // like sql.DB, its Close doesn't wait for a migration
	d := migratelocker.Wrap(db, l, lockName)
	closed := make(chan error, 1)
	db.onRun = func() {
		go func() { closed <- d.Close() }()
		time.Sleep(100 * time.Millisecond) // a Close that doesn't wait gives the lock back in this time
		if _, err := locker.TryAcquire(t.Context(), l, lockName); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("another one, while the migration runs: %v, want ErrHeld", err)
		}
	}
	if err := newMigrate(t, d).Up(); !errors.Is(err, migratelocker.ErrClosed) {
		t.Errorf("Up = %v, want an error that says that the driver is closed", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
	if want := []string{"one"}; !slices.Equal(db.MigrationSequence, want) {
		t.Errorf("applied %v, want %v", db.MigrationSequence, want)
	}
	if _, err := locker.TryAcquire(t.Context(), l, lockName); err != nil {
		t.Errorf("after Close: %v, want the lock to be free", err)
	}
}

func TestRefuses(t *testing.T) {
	l := newLocker(t, membackend.NewServer())
	if err := migratelocker.Wrap(newStub(t), l, lockName, migratelocker.WithWait(-time.Second)).Lock(); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Lock with a negative wait = %v, want %v", err, locker.ErrOption)
	}
	if err := migratelocker.Wrap(newStub(t), l, lockName, migratelocker.WithAcquire(locker.WithTTL(-1))).Lock(); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Lock with a negative TTL = %v, want %v", err, locker.ErrOption)
	}
	d := migratelocker.Wrap(newStub(t), l, lockName)
	if _, err := d.Open("stub://"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open = %v, want %v", err, errors.ErrUnsupported)
	}
	if err := d.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("Unlock without a lock = %v, want %v", err, database.ErrNotLocked)
	}
}
