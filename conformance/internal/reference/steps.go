package reference

import (
	"context"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// steps are the parts of the service and of its driver that a mutation may replace. A right backend
// has the functions of right. Everything else calls them through this table. A mutation calls the right
// step by its name, before or after what it does wrong.
type steps struct {
	// Of the service. They are called under its mutex.

	serve      func(s *Service, from *conn, q request, now driver.Instant) reply
	acquire    func(s *Service, from *conn, q request, c claim, now driver.Instant) answer
	renewOne   func(s *Service, q request, c claim, now driver.Instant) answer
	releaseOne func(s *Service, q request, c claim, now driver.Instant) answer
	current    func(s *Service, key string, now driver.Instant) answer
	owns       func(v verb, e *entry, c claim, q request) bool
	expiry     func(s *Service, v verb, r *record, e *entry, ttl time.Duration, now driver.Instant) driver.Instant
	advance    func(s *Service, r *record, now driver.Instant)
	promote    func(s *Service, r *record, now driver.Instant)
	revoke     func(s *Service, r *record, cause error, now driver.Instant)
	watch      func(s *Service, r *record, now driver.Instant)
	grant      func(s *Service, from *conn, r *record, e *entry, now driver.Instant)
	enqueue    func(s *Service, r *record, e *entry)
	mint       func(s *Service, from *conn, r *record) locker.Token
	bury       func(s *Service, c claim, now driver.Instant)
	notify     func(s *Service, session string, n notice)
	subscribe  func(s *Service, on *conn, session string)
	hangUp     func(s *Service, c *conn)
	restart    func(s *Service)
	wipe       func(s *Service)
	remove     func(s *Service, r *record, now driver.Instant)

	// Of the client: names and owners.

	key        func(prefix, name string) string
	currentKey func(prefix, name string) string // for CurrentToken
	owner      func(c *client) string

	// Of the client: connections. match, addressee, register and forget are called under its mutex.

	call      func(c *client, ctx context.Context, limit time.Duration, q request) (reply, error)
	match     func(c *client, number int) *call
	addressee func(c *client, n notice) *lock
	register  func(c *client, l *lock)
	forget    func(c *client, l *lock)
	known     func(c *client) []*lock

	// Of the client: locks.

	ask     func(l *lock, ctx context.Context) (driver.Grant, error)
	wait    func(l *lock, ctx context.Context) (driver.Grant, error)
	hold    func(l *lock, token locker.Token, base driver.Instant) driver.Grant
	shown   func(l *lock) time.Duration
	noticed func(l *lock, n notice) driver.Instant
	renew   func(c *client, ctx context.Context, locks []*lock, report func(int, driver.Instant, error)) error
	renewed func(l *lock, a answer, sent driver.Instant) (driver.Instant, error)
	release func(l *lock, ctx context.Context) error
}

// right returns the steps of a right backend.
func right() steps {
	return steps{
		serve:      (*Service).execute,
		acquire:    (*Service).acquire,
		renewOne:   (*Service).renew,
		releaseOne: (*Service).release,
		current:    (*Service).current,
		owns:       owns,
		expiry:     expiry,
		advance:    (*Service).advance,
		promote:    (*Service).promote,
		revoke:     (*Service).revoke,
		watch:      (*Service).watch,
		grant:      (*Service).grant,
		enqueue:    (*Service).enqueue,
		mint:       (*Service).mint,
		bury:       (*Service).bury,
		notify:     (*Service).notify,
		subscribe:  (*Service).subscribe,
		hangUp:     (*Service).hangUp,
		restart:    (*Service).restart,
		wipe:       (*Service).wipe,
		remove:     (*Service).remove,

		key:        key,
		currentKey: key,
		owner:      newOwner,

		call:      (*client).call,
		match:     (*client).match,
		addressee: (*client).addressee,
		register:  (*client).add,
		forget:    (*client).remove,
		known:     (*client).known,

		ask:     (*lock).ask,
		wait:    (*lock).wait,
		hold:    (*lock).hold,
		shown:   shown,
		noticed: noticed,
		renew:   (*client).renew,
		renewed: (*lock).renewed,
		release: (*lock).sendRelease,
	}
}
