package pgbackend

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

type (
	Key      = key
	Origin   = origin
	EpochRow = epochRow
)

const (
	ReachStep = reachStep
	OwnSpace  = ownSpace
	MaxValue  = maxValue
	MaxEpoch  = maxEpoch
)

var (
	KeyOf       = keyOf
	TextOf      = textOf
	ParseText   = parseText
	CheckPrefix = kit.CheckPrefix
	CheckSchema = checkSchema
	CheckConfig = checkConfig
	Quoted      = pgsession.Quoted
	Literal     = pgsession.Literal
	MakeToken   = makeToken
)

func (k key) Lock() string { return k.lock() }
func (k key) Gate() string { return k.gate() }

func NewOrigin(system, database, sequence, timeline int64) Origin {
	return origin{system: system, database: database, sequence: sequence, timeline: timeline}
}

func NewEpochRow(o Origin, epoch int64) EpochRow { return epochRow{o, epoch} }

func (r epochRow) At(now origin) epochRow { return r.at(now) }
func (r epochRow) Epoch() int64           { return r.epoch }

// Inspect describes the lock with a key by rows of the lock table, and List all locks of Lockers in
// them.
func Inspect(k Key, rows [][]string, waiters int) locker.Status {
	return foundIn(&pgsession.Call{Rows: rows}, 0).statusOf(k, waiters)
}

func List(rows [][]string, waiters int, nameOf func(Key) string) []locker.Status {
	return foundIn(&pgsession.Call{Rows: rows}, 0).statuses(waiters, nameOf)
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	pool, c, err := parse(u)
	return Settings{pool, c}, err
}

type Settings struct {
	Pool *pgxpool.Config
	c    options
}

func (s Settings) Config() (prefix, ttl, schema string, waiters int, labels bool) {
	return s.c.prefix, s.c.ttl.String(), s.c.schema, s.c.waiters, s.c.labels
}

// Hosts counts the servers of a configuration.
func (s Settings) Hosts() int { return pgsession.Hosts(s.Pool.ConnConfig) }

// NewWithKeys is New with other keys.
func NewWithKeys(
	ctx context.Context, config *pgxpool.Config, keys func(schema, prefix, name string) Key,
) (locker.Locker, error) {
	d := newDriver(config, newOptions(nil))
	d.keyOf = keys
	if err := d.open(ctx); err != nil {
		_ = d.Close(ctx)
		return nil, err
	}
	return driver.New(d, driver.Config{TTL: d.ttl, Features: locker.FeatureTTL, ObeysContext: true}), nil
}

// HandOrWithdraw hands a request to a session, and withdraws it, in this order or the other. It
// returns what became of both, and how often the request was handed over.
func HandOrWithdraw(withdrawFirst bool) (handed int, handErr error, isWithdrawn bool) {
	r := new(request)
	hand := func() { handErr = r.hand(func() error { handed++; return nil }) }
	if !withdrawFirst {
		hand()
	}
	isWithdrawn = r.withdraw()
	if withdrawFirst {
		hand()
	}
	return handed, handErr, isWithdrawn
}

// Message is the statements for some requests, by kind and key. A kind that begins with "-" is of a
// request that was withdrawn.
func Message(kinds []string, keys []Key) string {
	var some []*request
	for i, k := range keys {
		what, isWithdrawn := strings.CutPrefix(kinds[i], "-")
		kind := map[string]kind{"take": take, "token": takeToken, "give": give, "giveShared": giveShared, "giveEither": giveEither}[what]
		some = append(some, &request{kind: kind, key: k, isWithdrawn: isWithdrawn})
	}
	return message(some, "nextval(7::regclass)")
}

// Names takes so many names of a Locker that may have limit locks and has some waiters'
// connections, gives one back, and takes another. It returns how many it got, and the errors of the
// next one before and after.
func Names(limit, waiters int) (got int, full, then error) {
	n := &names{limit: limit, inUse: make(map[key]*named)}
	for full == nil {
		if full = n.join(&lock{key: key(got), text: strconv.Itoa(got)}, waiters); full == nil {
			got++
		}
	}
	if got > 0 {
		n.leave(&lock{key: 0, text: "0"})
		then = n.join(&lock{key: -1, text: "another"}, waiters)
	}
	return got, full, then
}

// LockLimit is how many locks a Locker may have on a server with these settings.
func LockLimit(perTx, connections, prepared int) int {
	return lockLimit(pgsession.Server{LocksPerTx: perTx, Connections: connections, Prepared: prepared})
}

// ApplicationName is the application_name of connections whose configuration has these parameters.
func ApplicationName(params map[string]string, name string) string {
	config := &pgxpool.Config{ConnConfig: &pgx.ConnConfig{Config: pgconn.Config{RuntimeParams: params}}}
	nameApplication(config, name)
	return config.ConnConfig.RuntimeParams["application_name"]
}

// StepOfRows executes what there is to do about rows, and returns the time until the next look.
func StepOfRows(ctx context.Context, l *Locker) time.Duration { return l.d.labels.step(ctx) }

// RunsRows reports whether there is something to do about rows.
func RunsRows(l *Locker) bool {
	l.d.labels.mu.Lock()
	defer l.d.labels.mu.Unlock()
	return l.d.labels.isRunning
}
