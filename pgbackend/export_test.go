package pgbackend

import (
	"context"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
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
	CheckPrefix = checkPrefix
	CheckSchema = checkSchema
	Quoted      = pgsession.Quoted
	Literal     = pgsession.Literal
	MakeToken   = token
)

func (k key) Lock() string { return k.lock() }
func (k key) Gate() string { return k.gate() }

func NewOrigin(system, database, sequence, timeline int64) Origin {
	return origin{system: system, database: database, sequence: sequence, timeline: timeline}
}

func NewEpochRow(o Origin, epoch int64) EpochRow { return epochRow{o, epoch} }

func (r epochRow) At(now origin) epochRow { return r.at(now) }
func (r epochRow) Epoch() int64           { return r.epoch }

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	pool, c, err := parse(u)
	return Settings{pool, c}, err
}

type Settings struct {
	Pool *pgxpool.Config
	c    config
}

func (s Settings) Config() (prefix, ttl, schema string, waiters int) {
	return s.c.prefix, s.c.ttl.String(), s.c.schema, s.c.waiters
}

// Hosts counts the servers of a configuration.
func (s Settings) Hosts() int { return pgsession.Hosts(s.Pool.ConnConfig) }

// NewWithKeys is New with other keys.
func NewWithKeys(ctx context.Context, pool *pgxpool.Config, keys func(schema, prefix, name string) Key) (locker.Locker, error) {
	d := newDriver(pool, newConfig(nil))
	d.keyOf = keys
	if err := d.open(ctx); err != nil {
		_ = d.Close(ctx)
		return nil, err
	}
	return driver.New(d, driver.Config{TTL: d.ttl, Features: locker.FeatureTTL}), nil
}

// Message is the statements for some requests: "take 1", "token", "give 2", "giveShared 3" by kind and key.
func Message(kinds []string, keys []Key) string {
	c := &conn{next: "nextval(7::regclass)"}
	var some []*request
	for i, k := range keys {
		some = append(some, &request{kind: map[string]kind{"take": take, "token": takeToken, "give": give, "giveShared": giveShared}[kinds[i]], key: k})
	}
	return c.message(some)
}

// Room is the accounting of the lock table: of a server with room for so many locks, of which so many are taken, and so many connections
// of Lockers, it returns how many a Locker that has used may have before the next look, and how many once it has given some back.
func Room(room, used, taken, connections, back int) (allowed, then int, err error) {
	d := &pgDriver{tableSize: room, names: make(map[key]*named)}
	err = d.allow(used, taken, connections)
	allowed = d.allowed
	for i := range used - back {
		d.names[key(i)] = nil
	}
	_, _ = d.room()
	return allowed, d.allowed, err
}
