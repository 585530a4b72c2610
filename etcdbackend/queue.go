package etcdbackend

import (
	"cmp"
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// place is a key's place in the queue for a name. No key gets a smaller create revision than a key that
// exists: so when all keys that once existed before this one are gone, its turn has come, whatever else
// happens. A watch reports that they are gone, or a read finds it out.
//
// A key that is gone may be put again, for another acquisition (keyNames). So a deletion says that a
// key with a certain create revision is gone only if its own revision is later.
//
// A waiter near the head of the queue watches all keys of the name, and needs to read nothing when
// its turn comes. If all waiters did so, each release would be reported to all of them; so a waiter
// far from the head watches one key only, a little before its own.
//
// The lock's mutex guards it.
type place struct {
	ahead    map[string]int64 // near the head: keys before its own that are known and may still exist, with their create revisions
	more     bool             // there may be others
	watchKey string           // far from the head: the key that is watched instead
	mustRead bool             // a watch has begun, or what was known is used up
	reading  bool             // a read is under way
	deleted  map[string]int64 // keys that a watch has reported meanwhile, with the revisions of their last deletions
	first    bool             // it is its turn
	changed  kit.Signal       // nil until it is known that others exist before it
}

// A waiter near the head watches all keys of the name. One that is far from the head watches a
// single key, and comes near a little before its turn. Measured with three members: with 16
// contenders an acquisition takes two requests if all of them are near. If half of them are far, it
// takes seven, because those watch one key, then read, and then watch all. With about 32 contenders
// or more, the reports to so many watchers cost the cluster more than those requests.
const (
	nearHead   = 24 // a waiter with up to so many keys before its own is near
	approachAt = 8  // how many places before its own the key is that a waiter far from the head watches
)

// page is how many keys are read at once of those before a waiter's.
const page = 100

// entry is a key that exists in a queue.
type entry struct {
	key     string
	created int64 // its create revision
}

// begin is called before a request that reads the keys before its own.
func (p *place) begin() {
	p.mustRead, p.reading, p.deleted = false, true, nil
}

// readFailed is called when that request has failed.
func (p *place) readFailed() { p.mustRead, p.reading = true, false }

// read records what the request has read, and reports whether it is its turn.
func (p *place) read(own string, keys []entry, more bool) bool {
	keys = slices.DeleteFunc(keys, func(k entry) bool {
		return p.deleted[k.key] > k.created || k.key == own
	})
	p.ahead, p.more, p.watchKey, p.reading, p.deleted = nil, more, "", false, nil
	if len(keys) > nearHead {
		slices.SortFunc(keys, func(a, b entry) int { return cmp.Compare(a.created, b.created) })
		p.watchKey = keys[len(keys)-approachAt].key
	} else if len(keys) > 0 {
		p.ahead = make(map[string]int64, len(keys))
		for _, k := range keys {
			p.ahead[k.key] = k.created
		}
	}
	if p.changed == nil && (len(keys) > 0 || more) {
		p.changed = kit.NewSignal()
	}
	p.decide()
	return p.first
}

// wasDeleted records that a key was deleted at a revision.
func (p *place) wasDeleted(key string, revision int64) {
	if p.reading {
		if p.deleted == nil {
			p.deleted = make(map[string]int64)
		}
		p.deleted[key] = max(p.deleted[key], revision)
		return
	}
	if p.isGone(key, revision) {
		delete(p.ahead, key)
		p.decide()
	}
}

// isGone reports whether a deletion of a key at a revision is the end of one that is known before its
// own, and not of one that had this key earlier.
func (p *place) isGone(key string, revision int64) bool {
	created, known := p.ahead[key]
	return known && revision > created
}

// checkKey is a key before its own that a renewal reads; "": there is none, or all are going to be
// read. When its turn has come, that key is gone, whether or not a watch has reported it. To read
// one key costs the cluster the same, however long the queue is.
func (p *place) checkKey() string {
	if p.first {
		return ""
	}
	for key := range p.ahead {
		return key
	}
	return p.watchKey
}

// missed records that a renewal has found a key gone at a revision. If a watch has reported it
// meanwhile, there is nothing to do.
func (p *place) missed(key string, revision int64) {
	if _, known := p.ahead[key]; !known && key != p.watchKey {
		return
	}
	p.wasDeleted(key, revision)
	if !p.first {
		p.readAgain()
	}
}

// readAgain makes the waiter read the keys before its own.
func (p *place) readAgain() {
	p.mustRead = true
	p.changed.Set()
}

// decide finds out whether the keys that are known leave something to wait for.
func (p *place) decide() {
	switch {
	case len(p.ahead) > 0 || p.watchKey != "":
		return
	case p.more:
		p.mustRead = true
	default:
		p.first = true
	}
	p.changed.Set()
}

// wait waits for the turn of a lock whose key is in the queue.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	for {
		l.mu.Lock()
		first, over, mustRead := l.place.first, l.known.over, l.place.mustRead
		l.mu.Unlock()
		switch {
		case over != nil:
			l.notifyLost(over) // not an error of the wait, which goes on with a new acquisition
			return driver.Grant{}, over
		case mustRead && ctx.Err() == nil: // also when it is its turn: its own key may be gone
			if err := l.readAhead(ctx); err != nil { // the place exists as long as renewals say so
				_ = l.place.changed.Wait(ctx, l.ttl/20)
			}
			continue
		case first:
			return l.granted()
		}
		select {
		case <-l.place.changed:
		case <-ctx.Done():
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// granted returns the grant of a lock whose turn it is. Its Base comes from the etcd lease that the
// key is attached to, which need not be the newest one.
//
// The key may have been deleted in the same revision as the last key before it. Both deletes are in
// one response, and hold waits until that was recorded: so it is known here. The watch of a held
// key reports later deletes.
func (l *lock) granted() (driver.Grant, error) {
	l.d.watches.hold(l)
	l.mu.Lock()
	token, e, over := locker.Token(l.known.created), l.known.lease, l.known.over
	l.mu.Unlock()
	if over != nil {
		l.notifyLost(over) // not an error of the wait, which goes on with a new acquisition
		return driver.Grant{}, over
	}
	return driver.Grant{Token: token, Base: l.session.baseOf(e), TTL: e.ttl}, nil
}

// readAhead reads which keys exist before this one.
func (l *lock) readAhead(ctx context.Context) error {
	l.update(l.place.begin)
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	ahead := clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(page),
		clientv3.WithMaxCreateRev(l.known.created-1))
	r, err := l.d.cluster.Txn(limited, l.session.attemptLimit(), nil, []clientv3.Op{clientv3.OpGet(l.key), ahead}, nil)
	if err != nil {
		l.update(l.place.readFailed)
		return err
	}
	_ = l.sawKey(r.Responses[0].GetResponseRange().Kvs, r.Header.Revision) // the wait sees what it has recorded
	others := r.Responses[1].GetResponseRange()
	l.update(func() { l.place.read(l.key, entriesOf(others.Kvs), others.More) })
	l.listen(r.Header.Revision)
	return nil
}

// listen watches what there is to watch after a read at a revision.
func (l *lock) listen(revision int64) {
	l.mu.Lock()
	first, watchKey := l.place.first, l.place.watchKey
	l.mu.Unlock()
	switch {
	case first:
	case watchKey != "":
		l.d.watches.joinFar(l, watchKey, revision)
	default:
		l.d.watches.joinNear(l)
	}
}

// watchBegun is called when all keys of the name are watched from now on: keys that were deleted
// before must be read.
func (l *lock) watchBegun() { l.update(l.place.readAgain) }

// keyDeleted records that a key of the name was deleted. Deletes are reported in the order of their
// revisions: so the own key existed then, unless it was deleted before the watch began (see wait), or is
// deleted in the same revision and reported next (see granted). While a key before it existed it was
// not the holder's, so it had no mark. Other keys say nothing of marks, which this watch doesn't report.
// Nor does a key whose deletion may have been missed: it may be another one by now, behind the own one.
func (l *lock) keyDeleted(key string, revision int64) {
	if key == l.key {
		l.ownKeyDeleted(revision)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if unbroken := !l.place.reading && !l.place.mustRead; unbroken && l.place.isGone(key, revision) && l.known.over == nil {
		l.known.lastSeen = max(l.known.lastSeen, revision)
	}
	l.place.wasDeleted(key, revision)
}

// ownKeyDeleted records that a key with the own name was deleted. Until the put is answered it isn't
// known whether the acquisition before had put that key: see wasPut.
func (l *lock) ownKeyDeleted(revision int64) {
	l.mu.Lock()
	created := l.known.created
	if created == 0 {
		l.place.wasDeleted(l.key, revision)
	}
	l.mu.Unlock()
	if created != 0 && revision > created {
		l.noteGone()
	}
}

// keyMissing records that a renewal has found a key before this one gone at a revision.
func (l *lock) keyMissing(key string, revision int64) {
	l.d.watches.approach(l, key)
	l.update(func() { l.place.missed(key, revision) })
}

// isBefore reports whether a key that was read has its place before this one.
func (l *lock) isBefore(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) > 0 && kvs[0].CreateRevision < l.known.created
}
