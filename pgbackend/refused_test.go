package pgbackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func refused(t *testing.T, f *fake, want error, says string) {
	t.Helper()
	l, err := pgbackend.New(t.Context(), f.config(t))
	if err == nil {
		_ = l.Close()
		t.Fatalf("New = a Locker, want an error that says %q", says)
	}
	if want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("New = %v, want %v, with %q and without the password", err, want, says)
	}
}

func TestServersRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake)
		want   error
		says   string
	}{
		"too old":            {func(f *fake) { f.version = 130020 }, errors.ErrUnsupported, "Postgres 13: want 14 or later"},
		"standby":            {func(f *fake) { f.standby = true }, nil, "standby"},
		"read-only":          {func(f *fake) { f.readOnly = true }, nil, "default_transaction_read_only"},
		"lock table":         {func(f *fake) { f.taken = 3200 }, pgbackend.ErrLockTable, "max_locks_per_transaction"},
		"too many clients":   {failing("53300 sorry, too many clients already"), nil, "no connection left"},
		"missing permission": {failing("42501 permission denied"), nil, "Migration"},
		"newer schema":       {func(f *fake) { f.protocol = "3" }, errors.ErrUnsupported, "protocol 3"},
		"no protocol":        {func(f *fake) { f.protocol = "0" }, errors.ErrUnsupported, "protocol 0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.change(c.change)
			refused(t, f, c.want, c.says)
		})
	}
}

// Schemas that were made by an older version are used as they are.
func TestProtocols(t *testing.T) {
	for _, protocol := range []string{"", "1", "2"} {
		f := newFake(t)
		f.change(func(f *fake) { f.protocol = protocol })
		if _, err := locker.TryAcquire(t.Context(), open(t, f), "a"); err != nil {
			t.Errorf("TryAcquire in a schema of protocol %q = %v, want a lease", protocol, err)
		}
	}
	f := newFake(t)
	l := open(t, f)
	f.change(func(f *fake) { f.protocol = "3" }) // raised while a Locker is open: its next connection finds out
	if _, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TryAcquire on a new connection to a schema of protocol 3 = %v, want ErrUnsupported", err)
	}
}

// A table of the epoch that is missing is made again only where no tokens were given out: they would
// fall. missing is whether there are the schema, the table of the epoch and the table of leases.
func TestEpochThatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		last    string // value of the sequence: "" without one, "?" to a role that may not know
		missing []string
		says    string
	}{
		"all":                                {"", []string{"f", "f", "f"}, ""},
		"all but the schema":                 {"", []string{"t", "f", "f"}, ""},
		"the table, before any token":        {"0", []string{"t", "f", "t"}, ""},
		"the sequence":                       {"", []string{"t", "t", "t"}, ""},
		"the table, after a token":           {"1", []string{"t", "f", "t"}, "Raising the epoch"},
		"the tables, after many tokens":      {"65536", []string{"t", "f", "f"}, `"locker".locker_token is at 65536`},
		"the table, and permissions as well": {"?", []string{"t", "f", "t"}, "USAGE on"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.change(func(f *fake) { f.missing = append([]string{c.last}, c.missing...) })
			if c.says == "" {
				open(t, f)
			} else {
				refused(t, f, nil, c.says)
			}
			if n := f.statements("CREATE TABLE"); (n == 1) != (c.says == "") {
				t.Errorf("tables were made %d times", n)
			}
		})
	}
}

// After a failover the new epoch is written on a synchronous standby as well. If none answers, the
// error says what is waited for.
func TestEpochThatNoStandbyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		f.change(func(f *fake) { f.promoted = 1 })
		f.silentAbout(".locker_epoch SET epoch = 2, ")
		began := time.Now()
		if _, err := pgbackend.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "synchronous_standby_names") {
			t.Errorf("New = %v, want an error that names synchronous_standby_names", err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("New took %v, want 10 s at most", took)
		}
	})
}

func TestPoolerIsRefused(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) {
		f.keyPID = 7
		f.before = func(sql string) string {
			if strings.HasPrefix(sql, "BEGIN") {
				return "08P01 transaction blocks not allowed in statement pooling mode"
			}
			return ""
		}
	})
	refused(t, f, pgbackend.ErrPooler, "session mode")
	f.change(func(f *fake) { f.before, f.shown = nil, "SELECT 1" }) // somebody else was there in between
	refused(t, f, pgbackend.ErrPooler, "session mode")
	f.change(func(f *fake) { f.shown = "" }) // each has a session of its own
	if n := f.statements("set_config"); n != 0 {
		t.Errorf("%d statements have set something for somebody else", n)
	}
	open(t, f)
}
