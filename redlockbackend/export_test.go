package redlockbackend

import (
	"context"
	"errors"
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
	CheckServers = checkServers
	ParseMessage = parseMessage
	Majority     = majority
)

// InspectScript is the text of the script that needs permissions of its own.
var InspectScript = inspectScript.Text

// Scripts are the texts of the other scripts, by name.
func Scripts() map[string]string {
	return map[string]string{
		"acquire": acquireScript.Text, "raise": raiseScript.Text, "renew": renewScript.Text, "release": releaseScript.Text,
		"enter": enterScript.Text, "probe": probeScript.Text, "break": breakScript.Text,
	}
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	c, servers, err := parseURL(u)
	return Settings{c, servers}, err
}

type Settings struct {
	c       config
	servers []*redis.Options
}

// SettingsOf is what options say.
func SettingsOf(opts ...Option) Settings { return Settings{c: newConfig(opts)} }

func (s Settings) Servers() []*redis.Options { return s.servers }

func (s Settings) Check() error { return s.c.check() }

func (s Settings) Config() (prefix string, ttl, maxTTL, serverTimeout time.Duration, newCluster, allowEviction bool) {
	c := s.c
	return c.prefix, c.ttl, c.maxTTL, c.serverTimeout, c.newCluster, c.allowEviction
}

const proposed = 100 // the token of servers that have raised their counters

// Reply is what a server answers; the zero value: nothing yet.
type Reply struct {
	Text string // as the scripts answer
	Err  error
}

func answersOf(replies []Reply) answers {
	t := make(answers, len(replies))
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

// AfterAcquire and AfterRaise are what the answers to the two phases come to, in a word.
func AfterAcquire(replies []Reply) string { return decisions[answersOf(replies).afterAcquire()] }
func AfterRaise(replies []Reply) string   { return decisions[answersOf(replies).afterRaise()] }

var decisions = map[decision]string{
	undecided: "undecided", won: "won", short: "short", lockHeld: "held", split: "split", failed: "failed",
}

func SecondPhaseToken(replies []Reply) locker.Token {
	token, _ := answersOf(replies).secondPhaseToken()
	return token
}

// PollAfter is how long after these answers a waiter asks again.
func PollAfter(replies []Reply) time.Duration {
	w := new(waiter)
	w.schedulePoll(answersOf(replies))
	return time.Until(w.nextPoll)
}

func MayRecover(replies []Reply) bool { return answersOf(replies).mayRecover() }

// Base is what the stamps prove. The stamps of servers that don't have the lease are negative.
func Base(stamps []driver.Instant) (driver.Instant, bool) {
	a := attempt{on: make([]onServer, len(stamps))}
	for i, s := range stamps {
		if s >= 0 {
			a.backers = a.backers.with(i)
		}
		a.confirm(i, s)
	}
	return a.base()
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
func NewDriver(clients []*redis.Client, maxTTL, serverTimeout time.Duration) driver.Driver {
	return newDriver(clients, newConfig([]Option{WithMaxTTL(maxTTL), WithServerTimeout(serverTimeout)}), nil)
}

// Hold makes what a driver keeps of a lease that it got with its first attempt. It asks no server.
func Hold(d driver.Driver, name string) driver.Lock {
	made, err := d.Lock(locker.Request{Name: name, TTL: time.Minute}, nil)
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

// HasLeft reports whether Release has given up all attempts.
func HasLeft(l driver.Lock) bool {
	own := l.(*lock)
	own.mu.Lock()
	defer own.mu.Unlock()
	for _, a := range own.attempts {
		a.mu.Lock()
		released := a.released
		a.mu.Unlock()
		if !released {
			return false
		}
	}
	return true
}

// KeepsOutAfterSecondPhase reports whether a server may keep others out that has granted the lock in the
// first phase of an attempt that wins. In the second one it agrees, or has lost the lock.
func KeepsOutAfterSecondPhase(lost bool) bool {
	a := &attempt{l: &lock{}, on: make([]onServer, 3)}
	second := reply{verdict: raised}
	if lost {
		second = reply{verdict: gone}
	}
	a.heard(2, acquireScript, reply{verdict: granted}, 1)
	a.heard(2, raiseScript, second, 2)
	a.win(2)
	return a.keepingOut(true).has(2)
}

// KeepsOutAfterRenewal reports whether a server may keep others out that has granted the lock, and then
// finds it gone at a renewal: before the holder has released it, or after.
func KeepsOutAfterRenewal(released bool) bool {
	a := &attempt{l: &lock{}, on: make([]onServer, 3)}
	a.heard(2, acquireScript, reply{verdict: raised}, 1)
	a.win(1)
	a.released = released
	a.renewed(2, 0, reply{verdict: gone})
	return a.keepingOut(true).has(2)
}

// AwaitIdle waits until no request is being sent.
func AwaitIdle(ctx context.Context, d driver.Driver) { _ = d.(*redlock).workers.wait(ctx) }

// Busy returns how many goroutines wait for servers.
func Busy(d driver.Driver) int {
	w := d.(*redlock).workers
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

// MarkSilent notes that a server was silent the last time.
func MarkSilent(d driver.Driver, server int) { d.(*redlock).nodes[server].silent.Store(true) }

// IsSilent reports whether a server was silent the last time.
func IsSilent(d driver.Driver, server int) bool { return d.(*redlock).nodes[server].silent.Load() }

const (
	MostUnanswered  = mostUnanswered
	MaxReleaseTries = maxReleaseTries
)

// CheckInfo judges what a server says in INFO.
func CheckInfo(info string, allowEviction bool) error {
	var f redisconn.Facts
	f.Read(info)
	return checkFacts(f, allowEviction)
}

// Workers are the goroutines of a driver.
type Workers struct{ *workers }

const WorkerStays = workerStays

func NewWorkers(most int) Workers { return Workers{newWorkers(most)} }

func (w Workers) Run(f func())                   { w.run(taskFunc(f), 0) }
func (w Workers) Close()                         { w.close() }
func (w Workers) Wait(ctx context.Context) error { return w.wait(ctx) }

func (w Workers) Idle() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.idle)
}

// ErrUnsure is an error of Judge: somebody may hold the lock.
var ErrUnsure = errors.New("unsure")

// Judge describes a lock by an answer of each server about it; nil is one that is silent.
func Judge(answers []any, quorum, waiters int) (locker.Status, error) {
	var all []record
	silent := 0
	for _, about := range answers {
		if about == nil {
			silent++
			continue
		}
		records, _, err := parseRecords([]any{"0", about})
		if err != nil {
			return locker.Status{}, err
		}
		all = append(all, records...)
	}
	s, sure := statusOf(all, quorum, silent, waiters)
	if !sure {
		return s, ErrUnsure
	}
	return s, nil
}
