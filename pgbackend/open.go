package pgbackend

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		locker.Register(scheme, open)
	}
}

// open serves the URLs that the package comment describes.
func open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	pool, c, err := parse(u)
	var l locker.Locker
	if err == nil {
		l, err = newLocker(ctx, pool, c)
	}
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backend, Err: err}
	}
	return l, nil
}

// libpq are the parameters that pgx reads. It takes any other for a setting of the session, which would let a misspelt one pass.
var libpq = []string{
	"host", "port", "user", "password", "dbname", "passfile", "service", "servicefile", "connect_timeout", "sslmode", "sslcert", "sslkey",
	"sslpassword", "sslrootcert", "sslsni", "sslnegotiation", "sslcertmode", "channel_binding", "require_auth", "krbsrvname", "krbspn",
	"min_protocol_version", "max_protocol_version", "target_session_attrs", "application_name", "options",
}

func parse(u *url.URL) (*pgxpool.Config, config, error) {
	p := kit.NewParams(u)
	c := config{
		prefix:  p.String("prefix", defaultPrefix),
		ttl:     p.Duration("ttl", defaultTTL),
		schema:  p.String("schema", defaultSchema),
		waiters: p.Int("waiter_connections", defaultWaiters),
	}
	for _, name := range libpq {
		p.String(name, "") // is known
	}
	err := p.Err()
	if err == nil && (u.Opaque != "" || u.Fragment != "") {
		err = fmt.Errorf("%w: URL: it is postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE, and only parameters may follow", locker.ErrOption)
	}
	if err != nil {
		return nil, c, err
	}
	query := u.Query()
	for _, own := range []string{"prefix", "ttl", "schema", "waiter_connections"} {
		query.Del(own)
	}
	rest := *u
	rest.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // libpq takes a plus for a plus
	if rest.Path == "" {
		rest.Path = "/" // and an @ for the end of the password, up to the first slash
	}
	conn, err := pgx.ParseConfig(rest.String())
	if err != nil {
		return nil, c, fmt.Errorf("%w: URL: %s", locker.ErrOption, withoutURL(err))
	}
	return &pgxpool.Config{ConnConfig: conn}, c, nil
}

// withoutURL is what is wrong with a URL. pgx quotes it, with stars for what it takes for the password.
func withoutURL(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		return text[i+len("`: "):]
	}
	return "it can't be parsed"
}

// pgLocker is what New returns. LockTx needs the driver beside the Locker that was made of it.
type pgLocker struct {
	locker.Locker
	d *pgDriver
}

func newLocker(ctx context.Context, pool *pgxpool.Config, c config) (locker.Locker, error) {
	if pool == nil || pool.ConnConfig == nil {
		return nil, fmt.Errorf("%w: there is no configuration", locker.ErrOption)
	}
	if err := cmp.Or(checkPrefix(c.prefix), checkSchema(c.schema), checkTTL(c.ttl), checkWaiters(c.waiters)); err != nil {
		return nil, err
	}
	d := newDriver(pool, c)
	limited, cancel := context.WithTimeout(ctx, max(openLimit, d.connectTime()))
	defer cancel()
	if err := d.open(limited); err != nil {
		_ = d.Close(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
		}
		return nil, err
	}
	cfg := driver.Config{TTL: roundUp(c.ttl), Features: locker.FeatureTTL}
	return &pgLocker{driver.New(d, cfg), d}, nil
}

func checkWaiters(n int) error {
	if n < 0 {
		return fmt.Errorf("%w: %d connections for waiters", locker.ErrOption, n)
	}
	return nil
}

func newDriver(pool *pgxpool.Config, c config) *pgDriver {
	d := &pgDriver{
		config:   c,
		pool:     pool.Copy(),
		keyOf:    keyOf,
		names:    make(map[key]*named),
		sessions: make(map[time.Duration]*session),
		conns:    make(map[*conn]struct{}),
		refused:  driver.Stamp().Add(-connectPause),
	}
	d.life, d.die = context.WithCancelCause(context.Background())
	return d
}

// open makes the first connection, finds out what the server is like, and makes what is missing in the schema.
func (d *pgDriver) open(ctx context.Context) error {
	c, err := d.connect(ctx, roundUp(d.ttl), false)
	if err != nil {
		return err
	}
	if err := c.lookForRoom(ctx); err != nil {
		return err
	}
	d.forgetRoom() // there may be many more Lockers when the first lock is acquired
	d.guarantees = Guarantees()
	d.sessions[c.ttl] = &session{d: d, ttl: c.ttl, shared: c}
	if d.config.waiters == 0 {
		d.guarantees.Order, d.guarantees.Waiting = locker.OrderNone, locker.WaitingPolled
	}
	if pgsession.Hosts(d.pool.ConnConfig) > 1 {
		d.guarantees.Tolerance = locker.ToleranceFailover
	}
	return nil
}

// learn takes in what a connection says of the server. Later ones may lead elsewhere.
func (d *pgDriver) learn(s pgsession.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tableSize = s.LocksPerTx * (s.Connections + s.Prepared)
}
