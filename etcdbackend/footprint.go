package etcdbackend

import "slices"

// footprint is what an acquisition may have left in the cluster, or on its way there. The lock's
// mutex guards it.
type footprint struct {
	possible bool         // the key may exist, or be on its way
	late     bool         // a copy of a request that puts the key may still be executed
	guard    int64        // the latest revision of a guard key that such a request compared
	leases   []*etcdLease // all that the key may be attached to; each is used
	removed  bool         // Release has made sure that there is nothing, for ever
}

// asks notes, before a request that puts the key, that the key may be attached to e, which is used for
// that.
func (f *footprint) asks(s *session, e *etcdLease, guard int64) {
	f.possible, f.guard = true, max(f.guard, guard)
	if slices.Contains(f.leases, e) {
		s.leave(e)
		return
	}
	f.leases = append(f.leases, e)
}

// wasNotPut notes that the request of asks has not put the key. That says nothing while a copy of an
// earlier request is late.
func (f *footprint) wasNotPut(s *session, e *etcdLease) {
	if f.late {
		return
	}
	f.possible = false
	f.leases = slices.DeleteFunc(f.leases, func(other *etcdLease) bool { return other == e })
	s.leave(e)
}

// moves notes, before a request that moves the key, that the key may be attached to e. It is false
// when e is retired: nothing extends it. A later etcd lease can't be known before e is retired, so a
// slow move doesn't take the key back.
func (f *footprint) moves(s *session, e *etcdLease) bool {
	if !s.mayUse(e) {
		return false
	}
	if f.removed || slices.Contains(f.leases, e) {
		s.leave(e)
	} else {
		f.leases = append(f.leases, e)
	}
	return true
}

// moved notes that the key is attached to e. As long as a request may be late that attaches the key to
// another etcd lease, that one stays in use. It is false when e is not in use any more: the answer is
// old, and a later move, or Release, has been faster.
func (f *footprint) moved(s *session, e *etcdLease) bool {
	if !slices.Contains(f.leases, e) {
		return false
	}
	if !f.late {
		for _, other := range f.leases {
			if other != e {
				s.leave(other)
			}
		}
		f.leases = []*etcdLease{e}
	}
	return true
}

// remove notes that there is nothing, and that nothing can come to exist.
func (f *footprint) remove(s *session) {
	for _, e := range f.leases {
		s.leave(e)
	}
	*f = footprint{removed: true, guard: f.guard}
}
