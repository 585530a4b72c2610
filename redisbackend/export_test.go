package redisbackend

import (
	"context"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	MessageTimeout = messageTimeout
	LanesWidth     = lanesWidth
	BatchSize      = batchSize
)

var (
	LockKey   = lockKey
	KeysOf    = keysOf
	StaggerOf = staggerOf
)

// Scripts are the texts of the scripts, by name.
func Scripts() map[string]string {
	return map[string]string{
		"acquire": acquireScript.Text, "renew": renewScript.Text, "release": releaseScript.Text, "probe": probeScript.Text,
		"renew_one": renewOneScript.Text, "release_one": releaseOneScript.Text, "tombstone_one": tombstoneOneScript.Text, "keep_one": keepOneScript.Text,
		"select": redisconn.LoadScript(files, "select.lua").Text, "inspect": inspectScript.Text, "break": breakScript.Text, "break_one": breakOneScript.Text,
	}
}

// ScanScript is the text of the script that needs a permission of its own.
var ScanScript = scanScript.Text

// Selecting is the text of a script for a client of a caller's.
func Selecting(text string) string { return selecting(text).Text }

// CheckInfo judges what a server says in INFO.
func CheckInfo(info string, cluster, allowEviction bool) error {
	var f redisconn.Facts
	f.Read(info)
	return checkFacts(f, cluster, allowEviction)
}

// Check checks the server that a client reaches.
func Check(ctx context.Context, client redis.UniversalClient) error {
	return newDriver(redisconn.NewConn(client, messageTimeout), configFor(client, nil), nil).checkAll(ctx, redisconn.UsesSentinels(client))
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	c, options, err := parseURL(u)
	return Settings{c, options}, err
}

type Settings struct {
	c       config
	Options redis.UniversalOptions
}

func (s Settings) Config() (prefix string, ttl string, allowEviction bool) {
	return s.c.prefix, s.c.ttl.String(), s.c.allowEviction
}

// ParseReply reads the answer of a script, in numbers: outcome, token, milliseconds left, rank; and
// whether we are heard.
func ParseReply(answer any) ([4]int64, bool, error) {
	r, err := parseReply(answer)
	return [4]int64{int64(r.outcome), int64(r.token), r.left.Milliseconds(), int64(r.rank)}, r.heard, err
}

// Message is what a message says.
type Message struct {
	Owner   string
	Grant   bool
	Token   locker.Token
	Stamp   driver.Instant
	Key     string
	Recheck time.Duration
}

func ParseMessage(text string) (Message, bool) {
	m, ok := parseMessage(text)
	return Message{m.owner, m.grant, m.token, m.stamp, m.key, m.recheck}, ok
}

// Exchange sends some requests in one message, once, and returns what becomes of each.
func Exchange(ctx context.Context, client redis.UniversalClient, n int) (errs []error) {
	reqs := make([]request, n)
	for i := range reqs {
		reqs[i] = request{script: acquireScript, key: lockKey("", "a", 0), owner: driver.NewOwner(), ttl: time.Minute}
	}
	b := batch{reqs: reqs, answers: make([]answer, n), end: time.Now().Add(messageTimeout), asks: ctx, try: 1}
	newRouter(redisconn.NewConn(client, messageTimeout), nil).exchange(ctx, &b)
	for _, a := range b.answers {
		errs = append(errs, a.err)
	}
	return errs
}

// NewDriver is New without the engine and without a look at the server.
func NewDriver(client redis.UniversalClient, pushes bool) driver.Driver {
	d := newDriver(redisconn.NewConn(client, messageTimeout), configFor(client, nil), nil)
	if !pushes {
		d.grants = nil
	}
	return d
}

// NewOwnDriver is NewDriver for a client that was made for a URL.
func NewOwnDriver(client redis.UniversalClient) driver.Driver {
	conn := redisconn.NewConn(client, messageTimeout)
	conn.UsePool()
	d := newDriver(conn, newConfig(nil), nil)
	d.grants = nil
	return d
}

// RecheckOf is in how long a waiter asks about its place that gets a message to ask in notified,
// and then a reply which says that the holder's lease lasts for left. The request was sent before
// the message came, or after it.
func RecheckOf(notified, left time.Duration, before bool) time.Duration {
	l := &lock{ttl: time.Hour, changed: kit.NewSignal()}
	sent := driver.Stamp()
	l.notifyRecheck(notified)
	if !before {
		sent = driver.Stamp().Add(time.Millisecond)
	}
	l.scheduleRecheck(reply{left: left}, sent)
	return l.recheckAt.Sub(driver.Stamp())
}

// SetUnsentLimit changes for how long a request may be on its way out of this process.
func SetUnsentLimit(d driver.Driver, limit time.Duration) { d.(*redisDriver).unsentLimit = limit }

// FormerOwners are the owners of acquisitions that are over.
type FormerOwners struct{ f formerOwners }

const MostFormer = mostFormer

func (f *FormerOwners) Add(owner string, lingers time.Duration) { f.f.add(owner, lingers) }
func (f *FormerOwners) Has(owner string) bool                   { return f.f.has(owner) }
func (f *FormerOwners) Len() int                                { return max(len(f.f.order), len(f.f.until)) }
