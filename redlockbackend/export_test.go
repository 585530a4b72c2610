package redlockbackend

import (
	"context"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

var (
	LockKey      = lockKey
	MemoryKey    = memoryKey
	CheckPrefix  = checkPrefix
	CheckServers = checkServers
	Majority     = majority
)

// Scripts are the texts of the scripts, by name.
func Scripts() map[string]string {
	return map[string]string{
		"acquire": acquireScript.text, "raise": raiseScript.text, "renew": renewScript.text, "release": releaseScript.text,
		"enter": enterScript.text, "probe": probeScript.text,
	}
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	t, err := parse(u)
	return Settings{t}, err
}

type Settings struct{ t target }

// SettingsOf is what options say.
func SettingsOf(opts ...Option) Settings { return Settings{target{config: newConfig(opts)}} }

func (s Settings) Servers() []redis.Options { return s.t.servers }

func (s Settings) Check() error { return s.t.check() }

func (s Settings) Config() (prefix string, ttl, maxTTL, nodeTimeout time.Duration, newCluster, allowEviction bool) {
	c := s.t.config
	return c.prefix, c.ttl, c.maxTTL, c.nodeTimeout, c.newCluster, c.allowEviction
}

const proposed = 100 // the token of those who have raised their counters

// Reply is what a server answers; the zero value: nothing yet.
type Reply struct {
	Text string // as the scripts answer
	Err  error
}

func tallyOf(replies []Reply) tally {
	t := make(tally, len(replies))
	for i, r := range replies {
		if r.Text != "" {
			var err error
			if t[i], err = parseReply(r.Text); err != nil {
				panic(err)
			}
		}
		if t[i].verdict == raised {
			t[i].counter = proposed
		}
		t[i].err = r.Err
	}
	return t
}

// First and Second are what the answers to the two phases come to, in a word.
func First(replies []Reply) string  { return decisions[tallyOf(replies).first()] }
func Second(replies []Reply) string { return decisions[tallyOf(replies).second()] }

var decisions = map[decision]string{
	undecided: "undecided", won: "won", short: "short", taken: "taken", split: "split", failed: "failed",
}

func Larger(replies []Reply) locker.Token {
	token, _ := tallyOf(replies).larger()
	return token
}

// LookAfter is how long after these answers who waits asks again.
func LookAfter(replies []Reply) time.Duration {
	w := new(turn)
	w.lookAfter(tallyOf(replies))
	return time.Until(w.look)
}

func MayRecover(replies []Reply) bool { return tallyOf(replies).mayRecover() }

// Base is what the stamps of those servers prove that have the lease; those of the others are negative.
func Base(stamps []driver.Instant) (driver.Instant, bool) {
	b := backing{servers: len(stamps), stamps: make([]driver.Instant, len(stamps))}
	for i, s := range stamps {
		if s >= 0 {
			b.stands = b.stands.with(i)
		}
		b.confirm(i, s)
	}
	return b.base()
}

// ParseAnswer reads the answer to a script about n locks, and returns what it says about each.
func ParseAnswer(val any, n int) (texts []string, err error) {
	replies, err := parseReplies(val, n)
	for _, r := range replies {
		texts = append(texts, string(r.verdict))
	}
	return texts, err
}

// Clock proposes tokens.
type Clock struct{ c clock }

func (c *Clock) Propose() locker.Token    { return c.c.propose() }
func (c *Clock) Learn(token locker.Token) { c.c.learn(token) }

// NewDriver is New without the engine and without a look at the servers.
func NewDriver(clients []*redis.Client, maxTTL, nodeTimeout time.Duration) driver.Driver {
	return newDriver(clients, newConfig([]Option{WithMaxTTL(maxTTL), WithNodeTimeout(nodeTimeout)}), nil)
}

// Hold makes what a driver keeps of a lease that it has got at the first attempt, without asking anybody.
func Hold(d driver.Driver, name string) driver.Lock {
	made, err := d.Lock(locker.Request{Name: name, TTL: time.Second}, nil)
	if err != nil {
		panic(err)
	}
	l := made.(*lock)
	a := l.newAttempt()
	l.add(a)
	for i := range l.d.nodes {
		a.heard(i, acquireScript, reply{verdict: raised}, a.token)
	}
	a.win(a.token)
	l.winner = a
	return l
}

// Settle waits until nothing is under way.
func Settle(ctx context.Context, d driver.Driver) { _ = d.(*redlock).wait(ctx) }

// CheckInfo judges what a server says in INFO.
func CheckInfo(info string, allowEviction bool) error {
	var f redisconn.Facts
	f.Read(info)
	return checkFacts(f, allowEviction)
}
