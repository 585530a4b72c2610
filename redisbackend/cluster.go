package redisbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/driver"
)

// In a Cluster a slot may be on its way to another server for as long as the move of its keys takes. Meanwhile both
// servers refuse a script with several keys (TRYAGAIN) if only some of them are there, and there is hardly a lock that
// has all five. A script with one key is always executed: where the key is, and by the new server if it is nowhere. So leases
// are renewed and released by scripts with one key each. Nothing is lost by that, because nobody queues in a Cluster.
//
// To acquire takes several keys at one moment. That is refused until the slot has moved.

var (
	renewOneScript   = newOneScript("renew_one.lua", 1)
	keepOneScript    = newOneScript("keep_one.lua", 2)
	releaseOneScript = newOneScript("release_one.lua", 1)
	buryOneScript    = newOneScript("bury_one.lua", 5)
)

func newOneScript(name string, only int) *script {
	s := newScript(name)
	s.only = only
	return s
}

// keepEvery is how often the last token of a lease is renewed. That gives it a minute more than it needs (kept.lua), and ten
// seconds of it are for requests that are slow.
const keepEvery = 50 * time.Second

// movingPause is between the requests of a waiter while the slot of its lock is on the move, in addition to those of send.
const movingPause = 100 * time.Millisecond

func (d *redisDriver) renewScript() *script {
	if d.server.cluster != nil {
		return renewOneScript
	}
	return renewScript
}

// keepTokens renews the last tokens of leases that were renewed, as renew.lua does for itself.
func (d *redisDriver) keepTokens(ctx context.Context, locks []driver.Lock) {
	if d.server.cluster == nil {
		return
	}
	var due []*lock
	var reqs []request
	sent := driver.Stamp()
	for _, l := range locks {
		if l := l.(*lock); l.keeps(sent) {
			due, reqs = append(due, l), append(reqs, l.request(keepOneScript, sent))
		}
	}
	d.server.askAll(ctx, reqs, func(i int, a answer) {
		if a.err == nil {
			due[i].kept(sent)
		}
	})
}

// keeps reports whether it is time to renew the last token.
func (l *lock) keeps(now driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked && l.token != 0 && now.Sub(l.tokenKept) >= keepEvery
}

func (l *lock) kept(sent driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenKept = max(l.tokenKept, sent)
}
