package etcdbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

var _ driver.Inspector = (*etcdDriver)(nil)

// Inspect reads the oldest of the keys of the name or its slot. The first of them is the holder's.
func (d *etcdDriver) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	dir := dirOf(d.prefix, name, look.Slot)
	r, err := d.read(ctx, clientv3.OpGet(dir, clientv3.WithRange(endOf(dir)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(int64(look.Waiters)+1)))
	if err != nil {
		return locker.Status{}, err
	}
	s := d.statusOf(dir, r.keys, int(r.count), look.Waiters)
	if s.Holder != nil {
		s.Holder.ExpiresIn, err = d.expiry(ctx, clientv3.LeaseID(r.keys[0].Lease))
	}
	return s, err
}

// found is what a range has.
type found struct {
	keys     []*mvccpb.KeyValue
	count    int64 // in the whole range
	more     bool
	revision int64
}

// read is linearizable, unless the range is at an older revision.
func (d *etcdDriver) read(ctx context.Context, get clientv3.Op) (found, error) {
	r, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt, nil, []clientv3.Op{get}, nil)
	if err != nil {
		return found{}, err
	}
	got := r.Responses[0].GetResponseRange()
	return found{got.Kvs, got.Count, got.More, r.Header.Revision}, nil
}

// expiry is how long an etcd lease lasts if it isn't refreshed: whole seconds, rounded up. Zero
// says that it isn't known: the key is attached to none, as one that somebody else has put, or the
// lease has just ended.
func (d *etcdDriver) expiry(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	if id == clientv3.NoLease {
		return 0, nil
	}
	left, _, found, err := d.cluster.TimeToLive(ctx, etcdconn.MaxAttempt, id)
	if err != nil || !found {
		return 0, err
	}
	return left + time.Second, nil
}

// statusOf describes a lock. keys are the oldest of its keys, in the order of their creation, and
// count is how many there are.
func (d *etcdDriver) statusOf(dir string, keys []*mvccpb.KeyValue, count, waiters int) locker.Status {
	s := locker.Status{Key: dir, Waiting: max(count-1, 0)}
	s.Name, s.Slot, _ = d.parseDir(dir)
	for i, kv := range keys[:min(len(keys), waiters+1)] {
		p := locker.Party{Owner: fmt.Sprintf("%s@%d", strings.TrimPrefix(string(kv.Key), dir), kv.CreateRevision)}
		if kv.Lease != 0 {
			p.Session = sessionOf(kv)
		}
		value, breach := kit.ReadMarked(string(kv.Value))
		labelIn(value).Describe(&p)
		p.Broken = breach
		if i == 0 {
			p.Token = locker.Token(kv.CreateRevision)
			s.Holder = &p
		} else {
			s.Waiters = append(s.Waiters, p)
		}
	}
	return s
}

// listSize is how many keys are read at a time.
const listSize = 1000

// list is the state of one list. All of it is read at one revision, unless the cluster compacts
// that in the meantime.
type list struct {
	d        *etcdDriver
	waiters  int
	from, to string // the range that is still to be read
	revision int64  // 0: the newest one

	dir    string                             // of the lock whose keys were read last; the next page may have more of them
	keys   []*mvccpb.KeyValue                 // its keys so far
	expiry map[clientv3.LeaseID]time.Duration // of the etcd leases that were asked about
}

// List reads the keys of all names in their order. So all keys of one name follow each other.
func (d *etcdDriver) List(prefix string, waiters int) driver.Pages {
	from := d.prefix + escape(prefix)
	l := &list{d: d, waiters: waiters, from: from, to: endOf(from), expiry: make(map[clientv3.LeaseID]time.Duration)}
	return l.next
}

func (l *list) next(ctx context.Context) ([]locker.Status, bool, error) {
	r, err := l.d.read(ctx, clientv3.OpGet(l.from, clientv3.WithRange(l.to),
		clientv3.WithLimit(listSize), clientv3.WithRev(l.revision)))
	if errors.Is(err, rpctypes.ErrCompacted) {
		l.revision = 0 // the rest is of a later moment
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if l.revision == 0 {
		l.revision = r.revision
	}
	var page []locker.Status
	for _, kv := range r.keys {
		dir, isLock := l.d.dirOfKey(string(kv.Key))
		if !isLock {
			continue
		}
		if dir != l.dir {
			page = l.finish(page)
			l.dir = dir
		}
		l.keys = append(l.keys, kv)
	}
	if r.more {
		l.from = string(r.keys[len(r.keys)-1].Key) + "\x00"
	} else {
		page = l.finish(page)
	}
	return page, r.more, l.addExpiry(ctx, page)
}

// finish adds the lock whose keys are complete.
func (l *list) finish(page []locker.Status) []locker.Status {
	if len(l.keys) == 0 {
		return page
	}
	slices.SortFunc(l.keys, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	page = append(page, l.d.statusOf(l.dir, l.keys, len(l.keys), l.waiters))
	l.keys = nil
	return page
}

// addExpiry asks about each etcd lease once, however many locks are attached to it.
func (l *list) addExpiry(ctx context.Context, page []locker.Status) error {
	var unknown []clientv3.LeaseID
	for _, s := range page {
		if id := idOf(s.Holder.Session); id != clientv3.NoLease {
			if _, known := l.expiry[id]; !known {
				l.expiry[id] = 0
				unknown = append(unknown, id)
			}
		}
	}
	var mu sync.Mutex
	var failed error
	kit.Parallel(maxParallel, unknown, func(id clientv3.LeaseID) {
		left, err := l.d.expiry(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		l.expiry[id] = left
		failed = cmp.Or(failed, err)
	})
	for _, s := range page {
		s.Holder.ExpiresIn = l.expiry[idOf(s.Holder.Session)]
	}
	return failed
}
