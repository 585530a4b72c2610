package etcdbackend

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// etcdDriver connects one Locker to an etcd cluster.
type etcdDriver struct {
	config
	cluster     *etcdconn.Cluster
	watches     *watches
	tasks       *kit.Tasks
	sessions    *kit.Sessions[*session]
	keyNames    keyNames
	guarantees  locker.Guarantees
	closeClient func() error // nil: the caller closes the client

	mu       sync.Mutex
	orphans  []clientv3.LeaseID // to revoke
	revokers int                // goroutines that do it
}

var (
	_ driver.Driver      = (*etcdDriver)(nil)
	_ driver.TokenReader = (*etcdDriver)(nil)
	_ driver.Lock        = (*lock)(nil)
	_ driver.Extender    = (*lock)(nil)
)

// maxSessions bounds the sessions of one Locker: each costs an etcd lease, and a request each third
// of its TTL.
const maxSessions = 8

func newDriver(client *clientv3.Client, c config) *etcdDriver {
	d := &etcdDriver{
		config:     c,
		cluster:    etcdconn.New(client, maxSessions),
		tasks:      kit.NewTasks(),
		guarantees: Guarantees(),
	}
	d.watches = newWatches(d.cluster, d.recheck)
	d.sessions = kit.NewSessions(kit.SessionOptions[*session]{
		Tasks: d.tasks,
		Max:   maxSessions,
		Each:  "an etcd lease of its own",
		New:   func(ttl time.Duration) *session { return newSession(d, ttl) },
	})
	return d
}

func (d *etcdDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *etcdDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := ttls.Check(req.TTL); err != nil {
		return nil, err
	}
	return &lock{
		d:          d,
		dir:        dirOf(d.prefix, req.Name, req.Slot),
		value:      valueOf(driver.LabelOf(req)),
		ttl:        ttls.RoundUp(req.TTL),
		noWait:     req.NoWait,
		noRenewal:  req.NoRenewal,
		notifyLost: lost,
	}, nil
}

const (
	maxRevokers = 4
	maxOrphans  = 1024
)

// revokeOrphan ends, in the background, an etcd lease to which no lock is attached. If that fails,
// or there are too many, it ends with its TTL. While the cluster is down each Grant leaves some, so
// they are queued.
func (d *etcdDriver) revokeOrphan(id clientv3.LeaseID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.orphans) < maxOrphans {
		d.orphans = append(d.orphans, id)
	}
	if d.revokers < maxRevokers && d.tasks.Go(d.revokeOrphans) {
		d.revokers++
	}
}

func (d *etcdDriver) revokeOrphans(life context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.orphans) > 0 {
		id := d.orphans[0]
		d.orphans = d.orphans[1:]
		d.mu.Unlock()
		ctx, cancel := context.WithTimeout(life, requestLimit)
		_ = d.cluster.Revoke(ctx, attemptLimit(ttls.Max, d.cluster.Members()), id)
		cancel()
		d.mu.Lock()
	}
	d.revokers--
}

// closeLimit is how long Close waits for tasks in the background and for the revocation of etcd
// leases. What isn't confirmed ends with its TTL; the engine reports removals of locks that are not
// confirmed.
const closeLimit = 2 * time.Second

// Close revokes the etcd leases, and so removes what may still be attached to them. It ends the
// watches and their goroutines.
func (d *etcdDriver) Close(ctx context.Context) error {
	d.watches.close()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	_ = d.tasks.Close(ctx)
	_ = d.tasks.Wait(context.WithoutCancel(ctx)) // their context has ended
	_ = d.sessions.Close(ctx)
	d.cluster.Close()
	if d.closeClient != nil {
		return d.closeClient()
	}
	return nil
}

// maxParallel bounds the requests that one call has under way.
const maxParallel = 16
