package fence

import (
	"context"
	"sync"

	"github.com/fencedlock/locker"
)

// Memory guards data in this process, such as a cache or a connection to a device. The zero value is ready to use.
// It remembers marks for as long as it lives. It is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	marks map[string]locker.Token
}

var _ Guard = (*Memory)(nil)

// Claim implements [Guard]. It waits while [Memory.Do] calls a function, for whatever resource; ctx has no effect.
func (m *Memory) Claim(_ context.Context, resource string, token locker.Token) error {
	return m.Do(resource, token, func() error { return nil })
}

// ClaimFrom is [Memory.Claim] with the token of the lease in ctx, which [TokenFrom] finds. It returns that token, for
// Do.
func (m *Memory) ClaimFrom(ctx context.Context, resource string) (locker.Token, error) {
	token, err := TokenFrom(ctx, resource)
	if err == nil {
		err = m.Claim(ctx, resource, token)
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}

// Do claims and calls fn as one step: no other claim of any resource comes between them. When the token is stale,
// fn is not called. Do returns fn's error; the claim is valid all the same. fn must not call m.
func (m *Memory) Do(resource string, token locker.Token, fn func() error) error {
	if err := Check(resource, token); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if highest := m.marks[resource]; token < highest {
		return &StaleError{Resource: resource, Token: token, Highest: highest}
	}
	if m.marks == nil {
		m.marks = make(map[string]locker.Token)
	}
	m.marks[resource] = token
	return fn()
}
