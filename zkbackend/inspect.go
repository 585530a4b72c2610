package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

var _ driver.Inspector = (*zkDriver)(nil)

const (
	listSize    = 500  // locks on one page
	maxParallel = 64   // requests that one call has under way on its connection
	maxData     = 2048 // bytes of a node's data that are looked at; a label and a mark have fewer
)

// Inspect lists the nodes of the lock or the slot, and looks at the first of them.
func (d *zkDriver) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	return asking(ctx, d, func(s *session) (locker.Status, error) {
		dir := s.lockDir(d.chroot.dir(name, look.Slot))
		if err := dir.catchUp(ctx); err != nil {
			// Without the node nobody holds the lock.
			return locker.Status{Name: name, Slot: look.Slot, Key: dir.path}, zkconn.Ignore(err, zk.ErrNoNode)
		}
		return dir.status(name, look.Slot, look.Waiters)
	})
}

// asking calls ask with a session, and with another one when that has ended, or its connection has.
// Any session serves, because ask makes the server of that session catch up itself. ask may be called
// again while an earlier call, which nobody waits for any more, goes on.
func asking[T any](ctx context.Context, d *zkDriver, ask func(s *session) (T, error)) (T, error) {
	for {
		s, err := d.anySession(ctx)
		if err != nil {
			return *new(T), err
		}
		answer, err := zkconn.Within(ctx, s.conn, func() (T, error) {
			defer d.sessions.Leave(s)
			return ask(s)
		})
		if !zkconn.Broken(err) && !errors.Is(err, zkconn.ErrOver) || ctx.Err() != nil {
			return answer, err
		}
	}
}

// anySession joins a session that is open, or opens the one of the default TTL. To look needs no
// session of its own, also where as many TTLs as possible are in use.
func (d *zkDriver) anySession(ctx context.Context) (*session, error) {
	if s, open := d.sessions.Any(); open {
		return s, nil
	}
	return d.sessions.Join(ctx, d.ttl)
}

// status describes a lock. The first of its nodes is the holder's.
func (d lockDir) status(name string, slot, waiters int) (locker.Status, error) {
	for {
		s := locker.Status{Name: name, Slot: slot, Key: d.path}
		nodes, _, err := d.queue()
		if err != nil || len(nodes) == 0 {
			return s, zkconn.Ignore(err, zk.ErrNoNode)
		}
		found, err := d.look(nodes[:min(len(nodes), waiters+1)])
		if err != nil {
			return s, err
		}
		if found[0].stat == nil {
			continue // the holder has gone since, and the next one has the lock
		}
		s.Waiting = len(nodes) - 1
		for i, f := range found {
			if f.stat == nil { // a waiter that has gone since
				s.Waiting--
				continue
			}
			p := locker.Party{
				Owner:   nodes[i].owner,
				Asked:   time.UnixMilli(f.stat.Ctime),
				Session: fmt.Sprintf("%#x", f.stat.EphemeralOwner),
			}
			label, breach := kit.ReadMarked(f.data)
			driver.ParseLabel(label).Describe(&p)
			p.Broken = breach
			if i == 0 {
				p.Token = locker.Token(f.stat.Czxid)
				s.Holder = &p
			} else {
				s.Waiters = append(s.Waiters, p)
			}
		}
		return s, nil
	}
}

// found is what the server knows of a node.
type found struct {
	stat *zk.Stat // nil: the node has gone
	data string
}

// look reads nodes. Where a node may be seen and not read, its label isn't known.
func (d lockDir) look(nodes []node) ([]found, error) {
	all := make([]found, len(nodes))
	return all, inParallel(nodes, func(i int, n node) (err error) {
		path := d.path + "/" + n.name
		data, stat, err := d.s.conn.Get(path)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			all[i].stat, err = d.s.conn.Exists(path)
		case err == nil:
			all[i] = found{stat, string(data[:min(len(data), maxData)])}
		}
		return zkconn.Ignore(err, zk.ErrNoNode)
	})
}

// inParallel calls f for each item, some at a time, and returns one of the errors.
func inParallel[T any](items []T, f func(i int, item T) error) error {
	numbers := make([]int, len(items))
	for i := range numbers {
		numbers[i] = i
	}
	var mu sync.Mutex
	var failed error
	kit.Parallel(maxParallel, numbers, func(i int) {
		mu.Lock()
		over := failed != nil
		mu.Unlock()
		if over {
			return
		}
		if err := f(i, items[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}

// List lists the locks' nodes below the chroot, and then looks at each of them.
func (d *zkDriver) List(prefix string, waiters int) driver.Pages {
	var dirs []string // nodes of locks that are still to be looked at; nil: not known yet
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		type page struct {
			locks []locker.Status
			rest  []string
		}
		known := dirs // dirs may be replaced while a call goes on that nobody waits for
		p, err := asking(ctx, d, func(s *session) (p page, err error) {
			// On each page: the session may be another one, whose server may know less.
			if err := s.lockDir(d.chroot.path).catchUp(ctx); err != nil {
				return p, zkconn.Ignore(err, zk.ErrNoNode) // nobody has ever made a lock
			}
			if p.rest = known; p.rest == nil {
				if p.rest, err = s.lockNodes(prefix); err != nil {
					return p, err
				}
			}
			some := p.rest[:min(len(p.rest), listSize)]
			p.rest = p.rest[len(some):]
			p.locks, err = s.statuses(some, waiters)
			return p, err
		})
		dirs = p.rest
		return p.locks, len(dirs) > 0, err
	}
}

// lockNodes are the nodes of all locks and slots that have one, held or not.
func (s *session) lockNodes(prefix string) ([]string, error) {
	children, _, err := s.conn.Children(s.chroot.path)
	if err != nil {
		return nil, zkconn.Ignore(err, zk.ErrNoNode)
	}
	nodes := make([]string, 0, len(children))
	for _, child := range children {
		if name, _, ok := parseDir(child); ok && strings.HasPrefix(name, prefix) {
			nodes = append(nodes, child)
		}
	}
	return nodes, nil
}

// statuses describes the locks that are held.
func (s *session) statuses(nodes []string, waiters int) ([]locker.Status, error) {
	all := make([]locker.Status, len(nodes))
	err := inParallel(nodes, func(i int, node string) (err error) {
		name, slot, _ := parseDir(node)
		dir := s.lockDir(s.chroot.dir(name, slot))
		if all[i], err = dir.status(name, slot, waiters); err != nil {
			return fmt.Errorf("%s: %w", dir.path, explain(err))
		}
		return nil
	})
	held := all[:0]
	for _, status := range all {
		if status.Holder != nil {
			held = append(held, status)
		}
	}
	return held, err
}
