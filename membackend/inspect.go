package membackend

import (
	"context"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.Inspector = (*memDriver)(nil)

// Inspect is one request.
func (d *memDriver) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	var status locker.Status // only for an answer that came, as in CurrentToken
	if _, err := d.client.call(ctx, maxLimit, &request{run: func(now driver.Instant) {
		status = d.client.server.inspect(name, look, now)
	}}); err != nil {
		return locker.Status{}, err
	}
	return status, nil
}

// List is one request, and so one moment for all locks.
func (d *memDriver) List(prefix string, waiters int) driver.Pages {
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		var page []locker.Status
		if _, err := d.client.call(ctx, maxLimit, &request{run: func(now driver.Instant) {
			page = d.client.server.list(prefix, waiters, now)
		}}); err != nil {
			return nil, false, err
		}
		return page, false, nil
	}
}

// inspect describes a lock or a slot. It doesn't advance the queue: that is for those who want the
// lock.
func (s *Server) inspect(name string, look locker.Look, now driver.Instant) locker.Status {
	key := keyOf(name, look.Slot)
	e := s.locks[key]
	if e == nil {
		return locker.Status{Name: name, Slot: look.Slot, Key: key}
	}
	status, _ := e.status(look.Waiters, now)
	return status
}

// status describes a lock, and reports whether it is held or waited for.
func (e *entry) status(waiters int, now driver.Instant) (locker.Status, bool) {
	status := locker.Status{Name: e.name, Slot: e.slot, Key: e.key}
	if e.holder != nil && now < e.expires {
		status.Holder = e.holder.party()
		status.Holder.Token, status.Holder.Since, status.Holder.ExpiresIn = e.token, since(e.token), e.expires.Sub(now)
		if e.breach != nil {
			breach := *e.breach
			status.Holder.Broken = &breach
		}
	}
	for _, w := range e.queue {
		if now >= w.expires {
			continue
		}
		if status.Waiting++; len(status.Waiters) < waiters {
			status.Waiters = append(status.Waiters, *w.party())
		}
	}
	return status, status.Holder != nil || status.Waiting > 0
}

// party is what an acquisition has said of itself.
func (a *acquisition) party() *locker.Party {
	p := &locker.Party{Owner: a.owner}
	a.label.Describe(p)
	return p
}

func (s *Server) list(prefix string, waiters int, now driver.Instant) []locker.Status {
	var all []locker.Status
	for _, e := range s.locks {
		if !strings.HasPrefix(e.name, prefix) {
			continue
		}
		if status, busy := e.status(waiters, now); busy {
			all = append(all, status)
		}
	}
	return all
}

// since is when a lock was granted, by its token; see mint. It is zero for a token that is ahead of
// the clock.
func since(token locker.Token) time.Time {
	if token > clock() {
		return time.Time{}
	}
	return time.UnixMicro(int64(token))
}
