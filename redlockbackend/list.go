package redlockbackend

import (
	"context"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// list is the state of one list. All servers are scanned side by side, a step on each for each
// page. When a lock is held it is known only when the last server has been scanned. So all locks
// are on the last page.
type list struct {
	d       *redlock
	prefix  string
	waiters int
	servers []scanned
	locks   map[string][]record // by key: one of each server
}

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
	found := make([][]record, len(l.servers))
	pattern := redisconn.Pattern(l.d.prefix, l.prefix)
	l.d.each(func(i int) {
		s := &l.servers[i]
		if s.over || s.err != nil {
			return
		}
		found[i], s.cursor, s.err = l.d.nodes[i].inspect(ctx, l.d.nodeTimeout, l.waiters, pattern, s.cursor)
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
	if err := l.d.tooFew(errs); err != nil || more {
		return nil, more, err
	}
	return l.statuses(), false, nil
}

// statuses are the locks that are held or waited for.
func (l *list) statuses() []locker.Status {
	var all []locker.Status
	for key, records := range l.locks {
		name, ok := redisconn.NameOf(l.d.prefix, key)
		if !ok || !strings.HasPrefix(name, l.prefix) || locker.ValidName(name) != nil {
			continue
		}
		s := statusOf(records, majority(len(l.servers)), l.waiters)
		if s.Holder == nil && s.Waiting == 0 && len(s.Partial) == 0 {
			continue
		}
		s.Name, s.Key = name, key
		all = append(all, s)
	}
	return all
}
