package acceptance

import (
	"database/sql"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	gooselocker "github.com/fencedlock/locker/adapters/goose"
)

// openSQLite opens a database in a file, which other processes may have open as well.
func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", sqliteURL(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sqliteURL(file string) string {
	return "file:" + file + "?_pragma=busy_timeout(30000)"
}

// The suite that goose has for its own lockers: one of five providers applies all migrations.
func TestGooseProviders(t *testing.T) {
	files := fstest.MapFS{
		"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n INTEGER);\n")},
		"00002_b.sql": {Data: []byte("-- +goose Up\nCREATE TABLE b (n INTEGER);\n")},
		"00003_c.sql": {Data: []byte("-- +goose Up\nCREATE TABLE c (n INTEGER);\n")},
	}
	onEach(t, func(t *testing.T, s service) {
		file := filepath.Join(t.TempDir(), "app.db")
		locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
			migrations := gooselocker.New(s.open(t), "migrations/app")
			p, err := goose.NewProvider(goose.DialectSQLite3, openSQLite(t, file), files, goose.WithLocker(migrations))
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	})
}

// Of five calls of Lock, one gets the lock, and the others' time runs out.
func TestGooseLockers(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) lock.Locker {
			return gooselocker.New(s.open(t), "migrations/app")
		}, 2*time.Second)
	})
}
