package acceptance

// What docs/adapters.md shows of the adapters. It is compiled here, and TestQuotes compares both texts.

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"

	"github.com/fencedlock/locker"
	certmagiclocker "github.com/fencedlock/locker/adapters/certmagic"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
	gooselocker "github.com/fencedlock/locker/adapters/goose"
	migratelocker "github.com/fencedlock/locker/adapters/migrate"
)

var (
	_ = usageGocron
	_ = usageGocronTask
	_ = usageGocronElector
	_ = usageMigrate
	_ = usageGoose
	_ = usageGooseStops
	_ = usageCertmagic
)

func report(context.Context) error             { return nil }
func save(context.Context, locker.Token) error { return nil }

func usageGocron(l locker.Locker) error {
	once := gocronlocker.NewLocker(l, locker.WithMinHold(5*time.Minute))
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(once))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.DurationJob(10*time.Minute), gocron.NewTask(report), gocron.WithName("cron/report"))
	if err != nil {
		return err
	}
	s.Start()
	return nil
}

func usageGocronTask(l locker.Locker, s gocron.Scheduler) error {
	task := gocronlocker.Task(l, "cron/report", func(ctx context.Context, lease locker.Lease) error {
		return save(ctx, lease.Token())
	}, locker.WithMinHold(5*time.Minute))
	_, err := s.NewJob(gocron.DurationJob(10*time.Minute), gocron.NewTask(task))
	return err
}

func usageGocronElector(l locker.Locker) error {
	elector, err := gocronlocker.NewElector(l, "leaders/cron")
	if err != nil {
		return err
	}
	defer elector.Close() // after the scheduler
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	return s.Shutdown()
}

func usageMigrate(l locker.Locker, db *sql.DB, files embed.FS) error {
	source, err := iofs.New(files, "migrations")
	if err != nil {
		return err
	}
	d, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "app", migratelocker.Wrap(d, l, "migrations/app"))
	if err != nil {
		return err
	}
	err = m.Up()
	if errors.Is(err, migrate.ErrNoChange) {
		return nil // another process has applied them
	}
	return err
}

func usageGoose(ctx context.Context, l locker.Locker, db *sql.DB, files fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithLocker(gooselocker.New(l, "migrations/app")))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func usageGooseStops(ctx context.Context, l locker.Locker, provider *goose.Provider) error {
	return locker.Do(ctx, l, "migrations/app", func(ctx context.Context, _ locker.Lease) error {
		_, err := provider.Up(ctx)
		return err
	})
}

func usageCertmagic(l locker.Locker) {
	shared := &certmagic.FileStorage{Path: "/mnt/shared/certmagic"}
	certmagic.Default.Storage = certmagiclocker.Wrap(shared, l)
}

// What docs/adapters.md quotes is code of this package.
func TestQuotes(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("../..", "docs/adapters.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range []string{"usage_test.go", "recipes_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.WriteString(trimLines(string(text)))
	}
	quotes := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(quotes) < 10 {
		t.Errorf("docs/adapters.md has %d pieces of code", len(quotes))
	}
	for _, quote := range quotes {
		if !strings.Contains(code.String(), trimLines(quote[1])) {
			t.Errorf("docs/adapters.md shows what isn't compiled here:\n%s", quote[1])
		}
	}
}

// trimLines removes indentation.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
