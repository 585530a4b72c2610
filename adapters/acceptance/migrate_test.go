package acceptance

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/fencedlock/locker"
	migratelocker "github.com/fencedlock/locker/adapters/migrate"
)

const (
	migrators = 8
	lockName  = "migrations/app"

	// Environment variables that make the test binary a process that migrates.
	migratorURL, migratorPrefix, migratorFile = "ACCEPTANCE_URL", "ACCEPTANCE_PREFIX", "ACCEPTANCE_FILE"
)

var files = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("CREATE TABLE applied (n INTEGER); INSERT INTO applied VALUES (1);")},
	"2_b.up.sql": {Data: []byte("INSERT INTO applied VALUES (2);")},
	"3_c.up.sql": {Data: []byte("INSERT INTO applied VALUES (3);")},
}

// migrateFile applies all migrations to the database in a file.
func migrateFile(rawURL, prefix, file string) error {
	l, err := openURL(context.Background(), rawURL, prefix)
	if err != nil {
		return err
	}
	defer l.Close()
	db, err := new(sqlite.Sqlite).Open("sqlite://" + sqliteURL(file)[len("file:"):])
	if err != nil {
		return err
	}
	return up(migratelocker.Wrap(db, l, lockName, migratelocker.WithWait(time.Minute)))
}

// up applies all migrations, unless another process has done it, and closes the database.
func up(db database.Driver) error {
	source, err := iofs.New(files, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "app", db)
	if err != nil {
		return err
	}
	m.LockTimeout = 2 * time.Minute
	err = m.Up()
	if errors.Is(err, migrate.ErrNoChange) {
		err = nil
	}
	sourceErr, dbErr := m.Close()
	return errors.Join(err, sourceErr, dbErr)
}

// Of eight processes one applies each migration.
func TestMigrateProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		file := filepath.Join(t.TempDir(), "app.db")
		var all sync.WaitGroup
		for range migrators {
			all.Go(func() {
				if s.scheme == "mem" { // which no other process sees
					if err := migrateFile(s.url, s.prefix, file); err != nil {
						t.Error(err)
					}
					return
				}
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), migratorURL+"="+s.url, migratorPrefix+"="+s.prefix, migratorFile+"="+file)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		all.Wait()
		rows, err := openSQLite(t, file).QueryContext(t.Context(), "SELECT n FROM applied ORDER BY n")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var applied []int
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			applied = append(applied, n)
		}
		if want := []int{1, 2, 3}; !slices.Equal(applied, want) || rows.Err() != nil {
			t.Errorf("applied %v (%v), want %v", applied, rows.Err(), want)
		}
	})
}

// shared is golang-migrate's stub of a database, in which several drivers work. It has no lock that
// keeps migrations apart, and Close leaves it open. (Its mutex is for the race detector, which doesn't
// know of locks outside the process.)
type shared struct {
	*stub.Stub
	mu        *sync.Mutex
	running   *atomic.Bool
	beforeRun func()
}

func newShared(t *testing.T, beforeRun func()) shared {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return shared{d.(*stub.Stub), new(sync.Mutex), new(atomic.Bool), beforeRun}
}

func (d shared) Close() error { return nil }

func (d shared) Version() (int, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Stub.Version()
}

func (d shared) SetVersion(version int, dirty bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Stub.SetVersion(version, dirty)
}

func (d shared) Run(migration io.Reader) error {
	if d.running.Swap(true) {
		return errors.New("two migrations at once")
	}
	defer d.running.Store(false)
	d.beforeRun()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Stub.Run(migration)
}

// Of eight programs, of which each has a Locker, one applies each migration.
func TestMigrateStub(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		db := newShared(t, func() { time.Sleep(5 * time.Millisecond) }) // so that others come meanwhile
		var all sync.WaitGroup
		for range migrators {
			l := s.open(t)
			all.Go(func() {
				if err := up(migratelocker.Wrap(db, l, lockName, migratelocker.WithWait(time.Minute))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		wantSequence(t, db.Stub, 3)
	})
}

// A lease that ends in the middle of a migration stops before the next step.
func TestMigrateStops(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		l := &last{Locker: s.open(t)}
		var db shared
		db = newShared(t, func() {
			if len(db.MigrationSequence) == 1 { // this is the second
				<-l.lease.Done()
			}
		})
		limit := migratelocker.WithAcquire(locker.WithMaxHold(time.Second))
		err := up(migratelocker.Wrap(db, l, lockName, limit))
		if !errors.Is(err, locker.ErrLost) || !errors.Is(err, locker.ErrMaxHold) {
			t.Errorf("Up = %v, want %v by %v", err, locker.ErrLost, locker.ErrMaxHold)
		}
		if wantSequence(t, db.Stub, 2); db.CurrentVersion != 2 || !db.IsDirty {
			t.Errorf("version %d, dirty %v, want 2, dirty", db.CurrentVersion, db.IsDirty)
		}
	})
}

func wantSequence(t *testing.T, db *stub.Stub, n int) {
	t.Helper()
	var want []string
	for _, name := range []string{"1_a.up.sql", "2_b.up.sql", "3_c.up.sql"}[:n] {
		want = append(want, string(files[name].Data))
	}
	if !slices.Equal(db.MigrationSequence, want) {
		t.Errorf("applied %q, want %q", db.MigrationSequence, want)
	}
}

// last is a Locker that keeps the last lease that it gave out.
type last struct {
	locker.Locker
	lease locker.Lease
}

func (l *last) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, name, opts...)
	l.lease = lease
	return lease, err
}
