package acceptance

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/vault/sdk/physical"

	"github.com/fencedlock/locker"
)

// vault is what a high-availability backend of Vault would be. The leader's address is a value in
// Vault's storage, which a real backend would protect with the token.
type vault struct {
	locker.Locker
	storage *sync.Map // address by the name of the lock
}

func (v vault) HAEnabled() bool { return true }

func (v vault) LockWith(key, value string) (physical.Lock, error) {
	return &vaultLock{vault: v, name: key, value: value}, nil
}

type vaultLock struct {
	vault       vault
	name, value string
	lease       locker.Lease
}

// Lock returns a channel that is closed when the lease ends, or nil if stop was closed first.
func (l *vaultLock) Lock(stop <-chan struct{}) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	lease, err := l.vault.Acquire(ctx, l.name)
	if errors.Is(err, context.Canceled) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l.lease = lease
	l.vault.storage.Store(l.name, l.value)
	return lease.Done(), nil
}

func (l *vaultLock) Unlock() error { return l.lease.Release(context.Background()) }

func (l *vaultLock) Value() (bool, string, error) {
	s, err := locker.Inspect(context.Background(), l.vault.Locker, l.name, locker.Look{})
	if err != nil || s.Holder == nil {
		return false, "", err
	}
	address, _ := l.vault.storage.Load(l.name)
	return true, address.(string), nil
}

// The suite that Vault has for its backends. There is no adapter for Vault, because Vault's backends are
// compiled in; this shows that one would be small.
func TestVault(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		l := s.open(t)
		if err := locker.Require(l.Guarantees(), locker.InspectionHolder); err != nil {
			t.Skip(err) // the suite asks who the leader is
		}
		storage := new(sync.Map)
		physical.ExerciseHABackend(t, vault{l, storage}, vault{s.open(t), storage})
	})
}
