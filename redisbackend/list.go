package redisbackend

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	scanCount   = 1000 // keys that the server looks at for one answer
	inspectSize = 500  // locks in one message
)

// list is the state of one list. There is no index of names: to keep one would cost commands in
// each acquisition and release, and in a Cluster it would be on another server. So all keys of each
// master are scanned. A key that exists from the beginning to the end of a scan is in it, perhaps
// more than once.
type list struct {
	d       *redisDriver
	prefix  string
	waiters int
	masters []*redis.Client // of a Cluster that are still to be scanned; the first one is
	begun   bool
	cursor  uint64
	seen    map[string]struct{} // keys of locks that were on a page
}

// List scans the keys of all masters. One page is one step of the scan, and what is asked about the
// locks in it.
func (d *redisDriver) List(prefix string, waiters int) driver.Pages {
	l := &list{d: d, prefix: prefix, waiters: waiters, seen: make(map[string]struct{})}
	return l.next
}

func (l *list) next(ctx context.Context) ([]locker.Status, bool, error) {
	conn := l.d.router.conn
	if !l.begun && conn.Cluster != nil {
		if err := l.findMasters(ctx); err != nil {
			return nil, false, redisconn.OverdueFrom("", err)
		}
	}
	l.begun = true
	keys, err := l.scan(ctx)
	if err != nil {
		return nil, false, redisconn.OverdueFrom(redisconn.AddressOf(conn.Client), permissionsFor(l.d.prefix).Explain(err))
	}
	var page []locker.Status
	for some := range slices.Chunk(keys, inspectSize) {
		all, err := l.d.inspector.inspect(ctx, l.d, some, l.waiters)
		if err != nil {
			return nil, false, l.d.router.conn.NameServer(ctx, err, some[0])
		}
		for _, s := range all {
			if s.Holder != nil || s.Waiting > 0 {
				l.seen[s.Key] = struct{}{}
				s.Name, s.Slot, _ = redisconn.NameOf(l.d.prefix, s.Key)
				page = append(page, s)
			}
		}
	}
	if l.cursor == 0 && len(l.masters) > 0 {
		l.masters = l.masters[1:]
	}
	return page, l.cursor != 0 || len(l.masters) > 0, nil
}

func (l *list) findMasters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	conn := l.d.router.conn
	var mu sync.Mutex
	var masters []*redis.Client
	var err error
	if left := conn.CallAside(ctx, func() {
		err = conn.Cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, c)
			return nil
		})
	}); left != nil {
		return left
	}
	l.masters = masters
	return err
}

// scan makes one step, and returns the keys of the locks in it that were on no page.
func (l *list) scan(ctx context.Context) ([]string, error) {
	keys, cursor, err := l.step(ctx)
	if redisconn.Broken(err) && ctx.Err() == nil {
		keys, cursor, err = l.step(ctx) // on another connection
	}
	if err != nil {
		return nil, leftCluster(err)
	}
	l.cursor = cursor
	locks := make(map[string]struct{})
	var found []string
	for _, key := range keys {
		lock, ok := l.lockOf(key)
		if !ok {
			continue
		}
		if _, again := l.seen[lock]; again {
			continue
		}
		if _, again := locks[lock]; !again {
			locks[lock] = struct{}{}
			found = append(found, lock)
		}
	}
	return found, nil
}

// step sends SCAN. To one server it goes the way of all requests, and to a master of a Cluster it goes
// by the client of that master.
func (l *list) step(ctx context.Context) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	conn, pattern := l.d.router.conn, redisconn.Pattern(l.d.prefix, l.prefix)
	if len(l.masters) > 0 {
		var keys []string
		var cursor uint64
		var err error
		master, from := l.masters[0], l.cursor
		if left := conn.CallAside(ctx, func() {
			keys, cursor, err = master.Scan(ctx, from, pattern, scanCount).Result()
		}); left != nil {
			return nil, 0, left
		}
		return keys, cursor, err
	}
	cmd := conn.NewCommand(ctx, scanWords(l.cursor, pattern, l.d.router.db))
	if err := conn.SendAside(ctx, cmd); err != nil {
		return nil, 0, err
	}
	result, err := cmd.Result()
	if err != nil {
		return nil, 0, err
	}
	return parseScan(result)
}

var scanScript = loadScript("scan.lua", 0)

// scanWords are SCAN on the wire. A client of a caller's may have selected another database, so a
// script is called, with its whole text: a list is rare.
func scanWords(cursor uint64, pattern string, db any) []any {
	from := strconv.FormatUint(cursor, 10)
	if db == nil {
		return []any{"scan", from, "match", pattern, "count", scanCount}
	}
	return append(scanScript.begin(nil, true, db), 0, from, pattern, scanCount, db)
}

// lockOf is the key of the lock, or slot, whose key, or queue, key is. Other keys of a lock stay when
// it is free.
func (l *list) lockOf(key string) (string, bool) {
	lock := strings.TrimSuffix(key, ":queue")
	name, _, ok := redisconn.NameOf(l.d.prefix, lock)
	return lock, ok && strings.HasPrefix(name, l.prefix) && locker.ValidName(name) == nil
}
