package redisbackend

import (
	"context"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

const MaxLimit = maxLimit

var (
	LockKey     = lockKey
	KeysOf      = keysOf
	CheckPrefix = checkPrefix
	Probed      = probed
	Stagger     = stagger
)

// Scripts are the texts of the scripts, by name.
func Scripts() map[string]string {
	return map[string]string{
		"acquire": acquireScript.text, "renew": renewScript.text, "release": releaseScript.text, "probe": probeScript.text,
		"renew_one": renewOneScript.text, "release_one": releaseOneScript.text, "bury_one": buryOneScript.text, "keep_one": keepOneScript.text,
	}
}

// CheckInfo judges what a server says in INFO.
func CheckInfo(info string, cluster, allowEviction bool) error {
	var f redisconn.Facts
	f.Read(info)
	return checkFacts(f, cluster, allowEviction)
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	t, err := parse(u)
	return Settings{t.config, t.options}, err
}

type Settings struct {
	c       config
	Options redis.UniversalOptions
}

func (s Settings) Config() (prefix string, ttl string, allowEviction bool) {
	return s.c.prefix, s.c.ttl.String(), s.c.allowEviction
}

// ParseReply reads the answer of a script, in numbers: standing, token, milliseconds left, rank; and whether we are
// heard.
func ParseReply(values []any) ([4]int64, bool, error) {
	r, err := parseReply(values)
	return [4]int64{int64(r.standing), int64(r.token), r.left.Milliseconds(), int64(r.rank)}, r.heard, err
}

// Exchange sends some requests in one message, once, and returns what becomes of each.
func Exchange(ctx context.Context, client redis.UniversalClient, n int) (errs []error) {
	reqs, which := make([]request, n), make([]int, n)
	for i := range reqs {
		reqs[i] = request{script: acquireScript, key: lockKey("", "a"), owner: driver.NewOwner(), ttl: time.Minute}
		which[i] = i
	}
	for _, v := range newServer(client).exchange(ctx, reqs, which, false) {
		errs = append(errs, v.err)
	}
	return errs
}

// NewDriver is New without the engine and without a look at the server.
func NewDriver(client redis.UniversalClient, pushes bool) driver.Driver {
	d := &redisDriver{server: newServer(client), prefix: defaultPrefix, guarantees: Guarantees()}
	if pushes {
		d.grants = newGrants(d)
	}
	return d
}

// LookOf is in how long a waiter asks about its place that was told to in a while, and then has a reply which says that the
// holder's lease has left so much. The request was sent before the message came, or after it.
func LookOf(told, left time.Duration, before bool) time.Duration {
	l := &lock{ttl: time.Hour, moved: make(chan struct{}, 1)}
	sent := driver.Stamp()
	l.tellLook(told)
	if !before {
		sent = driver.Stamp().Add(time.Millisecond)
	}
	l.lookAfter(reply{left: left}, sent)
	return l.untilLook()
}

// SetLeftBehind changes leftBehind until the function that it returns is called.
func SetLeftBehind(d time.Duration) (back func()) {
	before := leftBehind
	leftBehind = d
	return func() { leftBehind = before }
}
