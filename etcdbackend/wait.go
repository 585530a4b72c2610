package etcdbackend

import (
	"cmp"
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

// place is a key's place in the queue for a name. Keys are never put twice, and none gets a smaller create revision than
// one that stands: so when all keys that once stood before this one are gone, its turn has come, whatever else happens.
// That they are gone is told by a watch, or read.
//
// Who is near the head hears of all keys of the name, and needs to read nothing when its turn comes. Were it so for
// all, each release would be told to everybody; so who is far from the head hears only of one key, a little before it.
//
// The lock's mutex guards it.
type place struct {
	ahead   map[string]struct{} // keys before it that may still stand, of those that are known; near the head only
	more    bool                // there may be others
	far     string              // the key that is watched instead, far from the head
	look    bool                // who stands before it must be read: a watch has begun, or what was known is used up
	reading bool                // that is under way
	gone    map[string]struct{} // keys whose end the watch has told meanwhile
	won     bool                // it is its turn
	lost    bool                // the key is gone
	changed chan struct{}       // buffered; nil until it is known that others stand before it
}

// near is up to how many keys before its own a waiter hears of all.
const near = 8

// entry is a key that stands in a queue.
type entry struct {
	key     string
	created int64 // its create revision
}

// begin is called before a request that reads who stands before it.
func (p *place) begin() {
	p.look, p.reading, p.gone = false, true, nil
}

// failed is called when that request has failed.
func (p *place) failed() { p.look, p.reading = true, false }

// read takes in what the request read, and reports whether it is its turn.
func (p *place) read(own string, keys []entry, more bool) bool {
	keys = slices.DeleteFunc(keys, func(k entry) bool {
		_, gone := p.gone[k.key]
		return gone || k.key == own
	})
	p.ahead, p.more, p.far, p.reading, p.gone = nil, more, "", false, nil
	if len(keys) > near {
		slices.SortFunc(keys, func(a, b entry) int { return cmp.Compare(a.created, b.created) })
		p.far = keys[len(keys)-near].key
	} else if len(keys) > 0 {
		p.ahead = make(map[string]struct{}, len(keys))
		for _, k := range keys {
			p.ahead[k.key] = struct{}{}
		}
	}
	if p.changed == nil && (len(keys) > 0 || more) {
		p.changed = make(chan struct{}, 1)
	}
	p.settle()
	return p.won
}

// ended takes in that a key is gone.
func (p *place) ended(key string) {
	if p.reading {
		if p.gone == nil {
			p.gone = make(map[string]struct{})
		}
		p.gone[key] = struct{}{}
		return
	}
	if _, known := p.ahead[key]; known {
		delete(p.ahead, key)
		p.settle()
	}
}

// sign is a key before its own that a renewal reads; "": all that are before it are going to be
// read. When its turn has come, that key is gone, whether or not a watch has said so. To read one
// key costs the cluster the same, however long the queue is.
func (p *place) sign() string {
	for key := range p.ahead {
		return key
	}
	return p.far
}

// missed takes in that a renewal has found a key to be gone. If the watch has said so meanwhile,
// there is nothing to do.
func (p *place) missed(key string) {
	if _, known := p.ahead[key]; !known && key != p.far {
		return
	}
	p.ended(key)
	if !p.won {
		p.look = true
		p.tell()
	}
}

func (p *place) settle() {
	switch {
	case len(p.ahead) > 0 || p.far != "":
		return
	case p.more:
		p.look = true
	default:
		p.won = true
	}
	p.tell()
}

func (p *place) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// wait waits for the turn.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	for {
		l.mu.Lock()
		won, lost, look := l.place.won, l.place.lost, l.place.look
		l.mu.Unlock()
		switch {
		case lost:
			l.tellLost(errGone) // no failure of the wait, which goes on with a new acquisition
			return driver.Grant{}, errGone
		case won:
			return l.granted()
		case look && ctx.Err() == nil:
			if err := l.look(ctx); err != nil { // the place stands as long as renewals say so
				l.sleep(ctx)
			}
			continue
		}
		select {
		case <-l.place.changed:
		case <-ctx.Done():
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// look reads who stands before this key.
func (l *lock) look(ctx context.Context) error {
	l.mu.Lock()
	l.place.begin()
	l.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := l.d.server.txn(limited, l.session.attemptLimit(), nil, []clientv3.Op{clientv3.OpGet(l.key), l.ahead()}, nil)
	if err == nil {
		l.checked(r.Responses[0].GetResponseRange().Kvs, r.Header.Revision)
	}
	l.mu.Lock()
	if err != nil {
		l.place.failed()
		l.mu.Unlock()
		return err
	}
	others := r.Responses[1].GetResponseRange()
	l.place.read(l.key, keysOf(others.Kvs), others.More)
	l.mu.Unlock()
	l.listen(r.Header.Revision)
	return nil
}

// listen watches what there is to watch after a read at a revision.
func (l *lock) listen(revision int64) {
	l.mu.Lock()
	won, far := l.place.won, l.place.far
	l.mu.Unlock()
	switch {
	case won:
	case far != "":
		l.d.watches.joinFar(l, far, revision)
	default:
		l.d.watches.join(l)
	}
}

// ahead reads keys that stand before this one.
func (l *lock) ahead() clientv3.Op {
	return clientv3.OpGet(l.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(page),
		clientv3.WithMaxCreateRev(l.revision-1))
}

func (l *lock) sleep(ctx context.Context) {
	select {
	case <-time.After(l.session.ttl() / 20):
	case <-l.place.changed:
	case <-ctx.Done():
	}
}
