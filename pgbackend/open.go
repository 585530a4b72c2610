package pgbackend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes. It returns a *Locker.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	config, o, err := parse(u)
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	l, err := newLocker(ctx, config, o)
	if err != nil { // a nil *Locker would not be a nil locker.Locker
		return nil, err
	}
	return l, nil
}

// libpq are the parameters that pgx reads. It takes any other for a setting of the session, which
// would let a misspelt one pass.
var libpq = []string{
	"host", "port", "user", "password", "dbname", "passfile", "service", "servicefile", "connect_timeout", "sslmode", "sslcert", "sslkey",
	"sslpassword", "sslrootcert", "sslsni", "sslnegotiation", "sslcertmode", "channel_binding", "require_auth", "krbsrvname", "krbspn",
	"min_protocol_version", "max_protocol_version", "target_session_attrs", "application_name", "options",
}

func parse(u *url.URL) (*pgxpool.Config, options, error) {
	p := kit.NewParams(u)
	o := newOptions(nil)
	o.prefix = p.String("prefix", o.prefix)
	o.ttl = p.Duration("ttl", o.ttl)
	o.schema = p.String("schema", o.schema)
	o.waiters = p.Int("waiter_connections", o.waiters)
	o.labels = p.Bool("labels", o.labels)
	for _, name := range libpq {
		p.String(name, "") // is known
	}
	err := p.Err()
	if err == nil && (u.Opaque != "" || u.Fragment != "") {
		err = fmt.Errorf("%w: URL: want postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?PARAMETERS], for example postgres://joe@pg.example/app?ttl=30s", locker.ErrOption)
	}
	if err != nil {
		return nil, o, err
	}
	query := u.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(libpq, name) })
	rest := *u
	rest.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // libpq takes a plus for a plus
	if rest.Path == "" {
		rest.Path = "/" // and an @ for the end of the password, up to the first slash
	}
	conn, err := pgx.ParseConfig(rest.String())
	if err != nil {
		return nil, o, fmt.Errorf("%w: URL: %s", locker.ErrOption, withoutURL(err))
	}
	return &pgxpool.Config{ConnConfig: conn}, o, nil
}

// withoutURL is what is wrong with a URL. pgx quotes it, with stars for what it takes for the
// password.
func withoutURL(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		return text[i+len("`: "):]
	}
	return "it can't be parsed"
}

func newLocker(ctx context.Context, config *pgxpool.Config, o options) (*Locker, error) {
	if err := checkConfig(ctx, config); err != nil {
		return nil, kit.OpenError(backend, err)
	}
	if err := cmp.Or(kit.CheckPrefix(o.prefix), checkSchema(o.schema), ttls.Check(o.ttl), checkWaiters(o.waiters)); err != nil {
		return nil, kit.OpenError(backend, err)
	}
	d := newDriver(config, o)
	if err := kit.Opening(ctx, max(openLimit, d.connectTime()), d.open, nil); err != nil {
		_ = d.Close(ctx)
		return nil, kit.OpenError(backend, err)
	}
	return &Locker{driver.New(d, driver.Config{TTL: d.ttl, Features: locker.FeatureTTL | locker.FeatureSlots, ObeysContext: true}), d}, nil
}

// checkConfig refuses a configuration that can't be used whatever the servers are.
func checkConfig(ctx context.Context, config *pgxpool.Config) error {
	switch {
	case config == nil || config.ConnConfig == nil:
		return fmt.Errorf("%w: config: want one with a ConnConfig, for example of pgxpool.ParseConfig", locker.ErrOption)
	case !wasParsed(ctx, config.ConnConfig):
		return fmt.Errorf("%w: config: the ConnConfig was not made by pgx.ParseConfig or pgxpool.ParseConfig", locker.ErrOption)
	case wantsNoWrites(config.ConnConfig):
		return fmt.Errorf("%w: target_session_attrs: want read-write, primary or any: locks are on the primary, "+
			"and read-only, standby and prefer-standby ask for another server", locker.ErrOption)
	}
	return nil
}

// wasParsed reports whether a configuration was made by ParseConfig of pgx or pgxpool. pgx panics with
// any other one, also with one whose Config was made by ParseConfig of pgconn (conn.go, connect; pgconn.go,
// ConnectConfig). What it looks at isn't exported. So it is asked, without a way to a server.
func wasParsed(ctx context.Context, c *pgx.ConnConfig) (ok bool) {
	defer func() { ok = recover() == nil }()
	nowhere := c.Copy()
	nowhere.Tracer = nil
	nowhere.LookupFunc = func(context.Context, string) ([]string, error) { return nil, errNotNeeded }
	nowhere.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errNotNeeded }
	_, _ = pgx.ConnectConfig(ctx, nowhere)
	return true
}

// wantsNoWrites reports whether target_session_attrs asks for a server that takes no writes, in a URL, the
// environment or a service file. Of that parameter pgx keeps only a function.
func wantsNoWrites(c *pgx.ConnConfig) bool {
	for _, check := range []pgconn.ValidateConnectFunc{
		pgconn.ValidateConnectTargetSessionAttrsReadOnly,
		pgconn.ValidateConnectTargetSessionAttrsStandby,
		pgconn.ValidateConnectTargetSessionAttrsPreferStandby,
	} {
		if reflect.ValueOf(c.ValidateConnect).Pointer() == reflect.ValueOf(check).Pointer() {
			return true
		}
	}
	return false
}

func checkWaiters(n int) error {
	if n < 0 {
		return fmt.Errorf("%w: waiter connections %d: want 0 or more, for example %d", locker.ErrOption, n, defaultWaiters)
	}
	return nil
}
