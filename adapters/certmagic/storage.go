// Package certmagiclocker gives any storage of CertMagic (github.com/caddyserver/certmagic) the locks of
// any backend: for clusters whose certificates are on shared file systems, S3 or DynamoDB, where locks are
// files that go stale.
//
//	certmagic.Default.Storage = certmagiclocker.Wrap(storage, l)
//
// CertMagic asks for a lock so that one machine of a cluster talks to the certificate authority, and it
// looks into the storage again when it has the lock. What is required of the Locker is
// [locker.Efficiency]: two machines at once are a nuisance, because of the authority's rate limits.
// CertMagic's interface has no place for a token.
package certmagiclocker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/fencedlock/locker"
)

// ErrNotLocked says that Unlock or RenewLockLease was called without a Lock.
var ErrNotLocked = errors.New("certmagiclocker: not locked")

// Storage keeps data in the storage that it wraps, and locks on a lock service. It also implements
// [certmagic.TryLocker] and [certmagic.LockLeaseRenewer].
type Storage struct {
	certmagic.Storage
	locker locker.Locker
	opts   []locker.Option
	slots  slots
}

// Wrap returns s with the locks of l in place of its own. The options are the same as for
// [locker.Locker.Acquire]. All machines of a cluster must use the same storage and the same service. The
// caller closes l.
//
// A lock has CertMagic's name for it. A name that is longer than 153 bytes, or that [locker.ValidName] refuses, is
// cut and gets a hash, so that a domain of any length has a lock of its own, and a prefix of 47 bytes
// (middleware.Prefix) is possible.
func Wrap(s certmagic.Storage, l locker.Locker, opts ...locker.Option) *Storage {
	return &Storage{Storage: s, locker: l, opts: opts, slots: slots{named: map[string]*slot{}}}
}

// Lock waits for the lock until ctx ends. The errors are the same as for [locker.Locker.Acquire].
func (s *Storage) Lock(ctx context.Context, name string) error {
	slot := s.slots.enter(name)
	select {
	case slot.taken <- struct{}{}:
	case <-ctx.Done():
		s.slots.leave(name, slot)
		return context.Cause(ctx)
	}
	return s.acquire(ctx, name, slot)
}

// TryLock asks for the lock once. While somebody else has it, the result is false without an error.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	slot := s.slots.enter(name)
	select {
	case slot.taken <- struct{}{}:
	default:
		s.slots.leave(name, slot)
		return false, nil
	}
	err := s.acquire(ctx, name, slot, locker.NoWait())
	if errors.Is(err, locker.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// acquire takes the lock for the caller that has taken slot.
func (s *Storage) acquire(ctx context.Context, name string, slot *slot, more ...locker.Option) error {
	opts := append(s.opts[:len(s.opts):len(s.opts)], more...)
	held := false
	defer func() { // also after a panic
		if !held {
			<-slot.taken
			s.slots.leave(name, slot)
		}
	}()
	lease, err := s.locker.Acquire(ctx, lockName(name), opts...)
	if err != nil {
		return err
	}
	held = s.slots.replace(slot, nil, &holding{lease})
	return nil
}

// Unlock gives the lock back. An error that matches [locker.ErrLost] says that the lease ended before:
// another machine may have been at the same work. One that matches [locker.ErrUnconfirmed] says that the
// removal of the lock isn't confirmed; it goes on. ctx may be over.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	slot := s.slots.find(name)
	lease := s.slots.leaseOf(slot)
	if lease == nil || !s.slots.replace(slot, lease, nil) {
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	defer func() { // also after a panic
		<-slot.taken
		s.slots.leave(name, slot)
	}()
	return lease.Release(ctx)
}

// RenewLockLease returns nil while the lock is held; leases are renewed in the background, whatever the
// duration. If the lease was lost, the lock is asked for once, because CertMagic otherwise repeats its
// attempt for up to 30 days without a lock; it looks into the storage after this call. The error matches
// [locker.ErrHeld] when another machine has the lock now, or the service hasn't removed the lost lease yet,
// which takes its TTL at most. CertMagic repeats its attempt after any error.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	slot := s.slots.find(name)
	if slot != nil {
		select {
		case slot.renewing <- struct{}{}:
			defer func() { <-slot.renewing }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	lease := s.slots.leaseOf(slot)
	if lease == nil {
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	if lease.Err() == nil {
		return nil
	}
	next, err := locker.TryAcquire(ctx, s.locker, lockName(name), s.opts...)
	if err != nil {
		return err
	}
	if !s.slots.replace(slot, lease, &holding{next}) { // Unlock was called meanwhile
		return errors.Join(fmt.Errorf("%w: %q", ErrNotLocked, name), next.Release(ctx))
	}
	return nil
}

// String names both services, for logs.
func (s *Storage) String() string {
	return fmt.Sprintf("%v with locks on %s", s.Storage, s.locker.Guarantees().Backend)
}
