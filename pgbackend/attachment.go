package pgbackend

// The connections that a lease is attached to: one, or two while the lease moves (move.go). If one
// of them ends, the lease is lost.

// attach attaches the lease to c alone, where it was granted or has moved to. It fails, and leaves
// the lease where it was, if c has ended meanwhile: then nobody else notifies the holder.
func (l *lock) attach(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	c.leases.Add(1)
	l.detachLocked()
	l.attached = c
	return nil
}

// attachAlso attaches the lease to c as well, because the other connection is about to give the
// lock back. It fails if c has ended meanwhile: then the other connection must not be asked to.
func (l *lock) attachAlso(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	c.leases.Add(1)
	l.state, l.alsoAttached = handingOver, c
	return nil
}

// detach is the end of the lease, as far as the connections are concerned.
func (l *lock) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.detachLocked()
}

func (l *lock) detachLocked() {
	for _, c := range []**conn{&l.attached, &l.alsoAttached} {
		if *c != nil {
			(*c).leases.Add(-1)
			*c = nil
		}
	}
}

// attachment returns the connection that the lease is attached to, or the first of the two; the
// waiter's connection of the lock; and whether the lock waits, or is about to.
func (l *lock) attachment() (attached, waiter *conn, queued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attached, l.waiter, l.queued
}

// connectionEnded is called when a connection on which l has reserved a key has ended.
func (l *lock) connectionEnded(c *conn, cause error) {
	l.mu.Lock()
	isLost := l.attached == c || l.alsoAttached == c || l.attached == nil && l.waiter == c && l.queued
	l.mu.Unlock()
	if isLost {
		l.notifyLost(asLoss(cause))
	}
}
