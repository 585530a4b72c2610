package pgbackend_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func parse(t *testing.T, raw string) (pgbackend.Settings, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return pgbackend.ParseURL(u)
}

// noEnvironment hides what clients of Postgres read.
func noEnvironment(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSSLMODE", "PGSERVICE", "PGOPTIONS", "PGAPPNAME", "PGTARGETSESSIONATTRS"} {
		t.Setenv(name, "")
	}
	t.Setenv("PGPASSFILE", t.TempDir()+"/none")
}

func TestURL(t *testing.T) {
	noEnvironment(t)
	for _, c := range []struct {
		url            string
		host           string
		port           uint16
		user, password string
		database       string
		hosts          int
		tls            bool
	}{
		{url: "postgres://joe:p%40ss@h:1/d?sslmode=disable", host: "h", port: 1, user: "joe", password: "p@ss", database: "d", hosts: 1},
		{url: "postgresql://joe@h/d?sslmode=disable", host: "h", port: 5432, user: "joe", database: "d", hosts: 1},
		{url: "postgres://joe@h?sslmode=disable", host: "h", port: 5432, user: "joe", hosts: 1},
		{url: "postgres://joe@[::1]:1/d?sslmode=disable", host: "::1", port: 1, user: "joe", database: "d", hosts: 1},
		{url: "postgres://joe@h/d", host: "h", port: 5432, user: "joe", database: "d", hosts: 1, tls: true},
		{url: "postgres://joe@h/d?sslmode=require", host: "h", port: 5432, user: "joe", database: "d", hosts: 1, tls: true},
		{url: "postgres://joe@h1:1,h2:2/d?target_session_attrs=read-write", host: "h1", port: 1, user: "joe", database: "d", hosts: 2, tls: true},
		{url: "postgres:///d?host=/run/postgresql&user=joe&password=a%2Bb%20c", host: "/run/postgresql", port: 5432, user: "joe", password: "a+b c", database: "d", hosts: 1},
		{url: "postgres://h?user=joe&password=x@y&dbname=d&sslmode=disable", host: "h", port: 5432, user: "joe", password: "x@y", database: "d", hosts: 1},
	} {
		s, err := parse(t, c.url)
		if err != nil {
			t.Errorf("%s: %v, want nil", c.url, err)
			continue
		}
		o := s.Pool.ConnConfig
		if o.Host != c.host || o.Port != c.port || o.User != c.user || o.Password != c.password || o.Database != c.database || (o.TLSConfig != nil) != c.tls {
			t.Errorf("%s was read as %s:%d, user %q, password %q, database %q, TLS %v", c.url, o.Host, o.Port, o.User, o.Password, o.Database, o.TLSConfig != nil)
		}
		if n := s.Hosts(); n != c.hosts {
			t.Errorf("%s names %d servers, want %d", c.url, n, c.hosts)
		}
	}
}

func TestURLParameters(t *testing.T) {
	noEnvironment(t)
	type own struct {
		prefix, ttl, schema string
		waiters             int
		labels              bool
	}
	for raw, want := range map[string]own{
		"postgres://joe@h/d": {"locker:", "30s", "locker", 8, true},
		"postgres://joe@h/d?prefix=billing:&ttl=1m30s&schema=app&waiter_connections=3": {"billing:", "1m30s", "app", 3, true},
		"postgres://joe@h/d?prefix=&waiter_connections=0":                              {"", "30s", "locker", 0, true},
		"postgres://joe@h/d?labels=false":                                              {"locker:", "30s", "locker", 8, false},
	} {
		s, err := parse(t, raw)
		if err != nil {
			t.Errorf("%s: %v, want nil", raw, err)
			continue
		}
		var got own
		if got.prefix, got.ttl, got.schema, got.waiters, got.labels = s.Config(); got != want {
			t.Errorf("%s was read as %+v, want %+v", raw, got, want)
		}
		for _, name := range []string{"prefix", "ttl", "schema", "waiter_connections", "labels"} {
			if _, is := s.Pool.ConnConfig.RuntimeParams[name]; is {
				t.Errorf("%s: the parameter %s is sent to the server", raw, name)
			}
		}
	}
	s, err := parse(t, "postgres://joe@h/d?application_name=a%20b&options=-c%20geqo%3Doff")
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Pool.ConnConfig.RuntimeParams; p["application_name"] != "a b" || p["options"] != "-c geqo=off" {
		t.Errorf("application_name and options were read as %q", p)
	}
}

// What is refused, without a connection, and without showing what may be secret.
func TestURLRefused(t *testing.T) {
	noEnvironment(t)
	for raw, says := range map[string]string{
		"postgres://h/d?ttl=0s":                                                   `"ttl"`,
		"postgres://h/d?ttl=sesame":                                               `"ttl"`,
		"postgres://h/d?ttl=99ms":                                                 "want 100ms",
		"postgres://h/d?ttl=1000h":                                                "want 100ms to",
		"postgres://h/d?prefix=x%0A":                                              "control character",
		"postgres://h/d?schema=":                                                  "schema",
		"postgres://h/d?waiter_connections=-1":                                    "connections -1: want 0 or more",
		"postgres://h/d?waiter_connections=sesame":                                `"waiter_connections"`,
		"postgres://h/d?labels=sesame":                                            `"labels"`,
		"postgres://h/d?Prefix=x":                                                 `"Prefix"`,
		"postgres://h/d?statement_timeout=1":                                      `"statement_timeout"`,
		"postgres://h/d?pool_max_conns=1":                                         `"pool_max_conns"`,
		"postgres://joe:sesame@h/d?paswword=sesame":                               `"paswword"`,
		"postgres://h/d?password=sesame&password=sesame":                          "twice",
		"postgres://joe:sesame@h/d#sesame":                                        "want postgres://",
		"postgres:h":                                                              "want postgres://",
		"postgres://joe:sesame@h/d?sslmode=sometimes":                             "sslmode",
		"postgres://joe:sesame@h/d?sslmode=verify-full&sslrootcert=/no/such/file": "/no/such/file",
		"postgres://joe:sesame@h/d?target_session_attrs=sometimes":                "target_session_attrs",
		"postgres://joe:sesame@h/d?host=h1,h2&port=1,2,3":                         "port",
		"postgres://joe:sesame@h1,h2/d?target_session_attrs=prefer-standby":       "want read-write, primary or any",
		"postgres://joe:sesame@h1,h2/d?target_session_attrs=standby":              "want read-write, primary or any",
		"postgres://joe:sesame@h1,h2/d?target_session_attrs=read-only":            "want read-write, primary or any",
	} {
		l, err := locker.Open(t.Context(), raw)
		if err == nil {
			t.Errorf("%s was accepted", raw)
			_ = l.Close()
			continue
		}
		var e *locker.Error
		if !errors.Is(err, locker.ErrOption) || !errors.As(err, &e) || e.Op != "open" {
			t.Errorf("%s: %v, want a *locker.Error that is ErrOption", raw, err)
		}
		text := err.Error()
		if !strings.Contains(text, says) {
			t.Errorf("%s: %v, want it to say %s", raw, err, says)
		}
		if strings.Contains(text, "sesame") {
			t.Errorf("%s: the error shows a secret: %v", raw, err)
		}
	}
}

// A configuration that can't be used is refused before anything is sent. With some of these pgx would panic.
func TestConfigRefused(t *testing.T) {
	noEnvironment(t)
	alone, err := pgconn.ParseConfig("postgres://joe@127.0.0.1:1/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGTARGETSESSIONATTRS", "prefer-standby")
	standby, err := pgxpool.ParseConfig("postgres://joe@127.0.0.1:1/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]*pgxpool.Config{
		"none":                      nil,
		"one without ConnConfig":    {},
		"a ConnConfig made by hand": {ConnConfig: &pgx.ConnConfig{Config: pgconn.Config{Host: "127.0.0.1", Port: 1, User: "joe"}}},
		"a ConnConfig whose Config was made by pgconn.ParseConfig": {ConnConfig: &pgx.ConnConfig{Config: *alone}},
		"one that prefers standbys":                                standby,
	} {
		if l, err := pgbackend.New(t.Context(), config); !errors.Is(err, locker.ErrOption) || l != nil {
			t.Errorf("New with %s = %v, %v, want ErrOption", what, l, err)
		}
	}
}

// A configuration is checked without a look at a server: nothing of the caller's is called.
func TestConfigIsCheckedWithoutAServer(t *testing.T) {
	noEnvironment(t)
	config, err := pgxpool.ParseConfig("postgres://joe@127.0.0.1:1,/run/postgresql:2/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) {
		t.Error("a name is looked up")
		return nil, errors.New("no")
	}
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection is made")
		return nil, errors.New("no")
	}
	config.ConnConfig.Tracer = failingTracer{t}
	if err := pgbackend.CheckConfig(t.Context(), config); err != nil {
		t.Errorf("checkConfig = %v, want nil", err)
	}
}

type failingTracer struct{ t *testing.T }

func (f failingTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (f failingTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (f failingTracer) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	f.t.Error("a connection is traced")
	return ctx
}
func (f failingTracer) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) {}

// A URL is read or refused, and never shown.
func FuzzURL(f *testing.F) {
	f.Add("postgres://joe:sesame@h:5432/d?sslmode=disable")
	f.Add("postgresql://h1:1,h2:2/d?prefix=a&ttl=1s&schema=x&waiter_connections=2")
	f.Add("postgres://joe:sesame@[::1/d")
	f.Add("postgres://joe:ses`: ame@h:x/d")
	f.Add("postgres:///?host=/run&options=-c%20x%3Dy")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			t.Skip()
		}
		if q := u.Query(); q.Has("service") || q.Has("servicefile") || q.Has("passfile") || q.Has("sslcert") || q.Has("sslrootcert") || q.Has("sslkey") {
			t.Skip() // files
		}
		const secret = "0pen-sesame"
		u.User = url.UserPassword("joe", secret)
		s, err := pgbackend.ParseURL(u)
		if err != nil {
			if !errors.Is(err, locker.ErrOption) || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, want ErrOption, without the password", err)
			}
			return
		}
		if s.Pool.ConnConfig.Password != secret && !u.Query().Has("password") {
			t.Errorf("the password was read as %q", s.Pool.ConnConfig.Password)
		}
	})
}

// A connection says who it is of, unless the configuration says something, in the characters and
// the length that the server keeps.
func TestApplicationName(t *testing.T) {
	for given, want := range map[string]string{
		"locker h/1/p":                             "locker h/1/p",
		"locker ü\x00/1/\x7f":                      "locker ??/1/?",
		"locker " + strings.Repeat("h", 80) + "/1": "locker " + strings.Repeat("h", 56),
	} {
		if got := pgbackend.ApplicationName(nil, given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
		if got := pgbackend.ApplicationName(map[string]string{"application_name": ""}, given); got != "" {
			t.Errorf("an application_name that was set is replaced by %q", got)
		}
	}
}
