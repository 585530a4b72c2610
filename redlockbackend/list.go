package redlockbackend

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

// list is the state of one list. All servers are scanned side by side, a step on each for each
// page. When a lock is held it is known only when the last server has been scanned. So all locks
// are on the last page of the scan. Others follow if servers don't answer.
type list struct {
	d       *redlock
	prefix  string
	waiters int
	servers []scanned
	locks   map[string][]record // by key: one of each server

	scanned bool
	unsure  []string // keys of locks that are held if servers that don't answer say so; they are asked about alone
	failed  error    // of one of these
}

// unsurePage is how many locks are asked about on one page after the scan.
const unsurePage = 50

// scanned is how far the scan of one server has come.
type scanned struct {
	cursor string
	over   bool
	err    error               // it is not asked any more
	seen   map[string]struct{} // keys: a scan may have one more than once
}

// List scans all keys of all servers.
func (d *redlock) List(prefix string, waiters int) driver.Pages {
	l := &list{d: d, prefix: prefix, waiters: waiters, servers: make([]scanned, len(d.nodes)), locks: make(map[string][]record)}
	for i := range l.servers {
		l.servers[i] = scanned{cursor: "0", seen: make(map[string]struct{})}
	}
	return l.next
}

func (l *list) next(ctx context.Context) ([]locker.Status, bool, error) {
	if l.scanned {
		return l.askAgain(ctx)
	}
	found := make([][]record, len(l.servers))
	pattern := redisconn.Pattern(l.d.prefix, l.prefix)
	l.d.each(func(i int) {
		s := &l.servers[i]
		if s.over || s.err != nil {
			return
		}
		found[i], s.cursor, s.err = l.d.nodes[i].inspect(ctx, l.d.serverTimeout, l.waiters, pattern, s.cursor)
		s.over = s.cursor == "0"
	})
	more := false
	errs := make([]error, len(l.servers))
	for i := range l.servers {
		s := &l.servers[i]
		errs[i], more = s.err, more || !s.over && s.err == nil
		for _, r := range found[i] {
			if _, again := s.seen[r.key]; !again {
				s.seen[r.key] = struct{}{}
				l.locks[r.key] = append(l.locks[r.key], r)
			}
		}
	}
	silent := l.d.silent(errs)
	if err := l.d.tooFew(silent); err != nil || more {
		return nil, more, err
	}
	l.scanned = true
	page := l.statuses(len(silent))
	return page, len(l.unsure) > 0, nil
}

// askAgain asks about some of the locks of which the scan doesn't say whether they are held. Those
// that aren't known then end the list with an error after all others, which names one of them.
func (l *list) askAgain(ctx context.Context) (page []locker.Status, more bool, err error) {
	some := l.unsure[:min(len(l.unsure), unsurePage)]
	l.unsure = l.unsure[len(some):]
	var mu sync.Mutex
	kit.Parallel(len(some), some, func(key string) {
		s, err := l.d.inspect(ctx, key, l.waiters)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			l.failed = cmp.Or(l.failed, fmt.Errorf("%q: %w", key, err))
		case busy(s):
			page = append(page, s)
		}
	})
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if len(l.unsure) == 0 && l.failed != nil && len(page) == 0 {
		return nil, false, l.failed
	}
	return page, len(l.unsure) > 0 || l.failed != nil, nil
}

// busy reports whether a lock is held, or somebody wants it.
func busy(s locker.Status) bool { return s.Holder != nil || s.Waiting > 0 || len(s.Partial) > 0 }

// statuses are the locks that are held or waited for, without those that are left to askAgain.
func (l *list) statuses(silent int) []locker.Status {
	var all []locker.Status
	for key, records := range l.locks {
		name, slot, ok := redisconn.NameOf(l.d.prefix, key)
		if !ok || !strings.HasPrefix(name, l.prefix) || locker.ValidName(name) != nil {
			continue
		}
		s, sure := statusOf(records, majority(len(l.servers)), silent, l.waiters)
		s.Name, s.Slot, s.Key = name, slot, key
		switch {
		case !sure:
			l.unsure = append(l.unsure, key)
		case busy(s):
			all = append(all, s)
		}
	}
	return all
}
