package etcdbackend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// etcdDriver is the contact of one Locker with an etcd cluster.
type etcdDriver struct {
	config
	server     *server
	watches    *watches
	guarantees locker.Guarantees
	done       func() error // called when the driver is closed

	life    context.Context // of what goes on in the background
	endLife context.CancelFunc

	mu       sync.Mutex
	closed   bool
	sessions map[int64]*session // by TTL in seconds
	strays   []clientv3.LeaseID // to revoke
	revokers int                // goroutines that do it
	tasks    sync.WaitGroup
}

var (
	_ driver.Driver   = (*etcdDriver)(nil)
	_ driver.Lock     = (*lock)(nil)
	_ driver.Extender = (*lock)(nil)
)

// maxSessions bounds the sessions of one Locker: each costs an etcd lease, and a request each third of its TTL.
const maxSessions = 8

func newDriver(client *clientv3.Client, c config, done func() error) *etcdDriver {
	d := &etcdDriver{
		config:     c,
		server:     &server{client: client},
		guarantees: Guarantees(),
		done:       done,
		sessions:   make(map[int64]*session),
	}
	d.life, d.endLife = context.WithCancel(context.Background())
	d.watches = newWatches(d.life, d.server, d.confirmLater)
	d.server.left = d.watches.leave
	return d
}

func (d *etcdDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *etcdDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	dir := dirOf(d.prefix, req.Name)
	return &lock{
		d:        d,
		dir:      dir,
		key:      dir + driver.NewOwner(),
		seconds:  seconds(req.TTL),
		noWait:   req.NoWait,
		lasting:  req.NoRenewal,
		tellLost: lost,
	}, nil
}

// join returns the session for a TTL, for one more acquisition to use.
func (d *etcdDriver) join(seconds int64) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[seconds]
	if s == nil {
		if len(d.sessions) >= maxSessions && !d.makeRoom() {
			return nil, fmt.Errorf("%w: locks with %d different TTLs are held or waited for, and each TTL needs an etcd lease of its own; "+
				"use fewer TTLs, or several lockers", locker.ErrOption, maxSessions)
		}
		s = &session{d: d, seconds: seconds}
		d.sessions[seconds] = s
	}
	s.users++
	return s, nil
}

// makeRoom ends a session that nobody uses.
func (d *etcdDriver) makeRoom() bool {
	for seconds, s := range d.sessions {
		if s.users > 0 {
			continue
		}
		delete(d.sessions, seconds)
		d.goLocked(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_ = s.end(ctx) // else they end with their TTL
		})
		return true
	}
	return false
}

// part is the opposite of join.
func (d *etcdDriver) part(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.users--
}

// background runs a task that Close waits for, in a goroutine. It is false when the driver is closed.
func (d *etcdDriver) background(task func(context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.goLocked(task)
}

func (d *etcdDriver) goLocked(task func(context.Context)) bool {
	if d.closed {
		return false
	}
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		task(d.life)
	}()
	return true
}

// confirmLater finds out which keys don't stand any more. If that fails, the next renewal does.
func (d *etcdDriver) confirmLater(locks []*lock) {
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for part := range slices.Chunk(locks, maxChecks) {
			cmps, reads := checks(part)
			r, err := d.server.txn(ctx, maxAttempt, cmps, reads[:1], reads)
			if err != nil {
				return
			}
			for i, l := range part {
				if !r.Succeeded && !l.checked(r.Responses[i].GetResponseRange().Kvs, r.Header.Revision) {
					l.lose()
				}
			}
		}
	})
}

const (
	maxRevokers = 4
	maxStrays   = 1024
)

// revokeLater ends an etcd lease on which no lock hangs. If that fails, or there are too many, it ends with its TTL. While the cluster
// is down each Grant leaves some, so they wait in a line.
func (d *etcdDriver) revokeLater(id clientv3.LeaseID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strays) < maxStrays {
		d.strays = append(d.strays, id)
	}
	if d.revokers < maxRevokers && d.goLocked(d.revokeStrays) {
		d.revokers++
	}
}

func (d *etcdDriver) revokeStrays(life context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.strays) > 0 {
		id := d.strays[0]
		d.strays = d.strays[1:]
		d.mu.Unlock()
		ctx, cancel := context.WithTimeout(life, patience)
		_ = d.server.revoke(ctx, attemptLimit(maxTTL, d.server.count()), id)
		cancel()
		d.mu.Lock()
	}
	d.revokers--
}

// closeLimit is how long Close waits for tasks in the background and for the revocation of etcd leases. What isn't
// confirmed ends with its TTL; that removals of locks are not confirmed is for the engine to say.
const closeLimit = 2 * time.Second

// Close revokes the etcd leases, and so removes what may still hang on them. It ends the watches and their goroutines.
func (d *etcdDriver) Close(ctx context.Context) error {
	d.watches.close()
	d.mu.Lock()
	d.closed = true
	sessions := slices.Collect(maps.Values(d.sessions))
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, d.endLife)
	defer stop()
	d.tasks.Wait()
	parallel(sessions, func(s *session) { _ = s.end(ctx) })
	d.endLife()
	d.server.close()
	if d.done != nil {
		return d.done()
	}
	return nil
}

// maxParallel bounds the requests that one call has under way.
const maxParallel = 16

// parallel calls f for each item, some at a time, and returns when all calls have.
func parallel[T any](items []T, f func(T)) {
	if len(items) == 1 {
		f(items[0])
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for _, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(item)
		})
	}
	all.Wait()
}
