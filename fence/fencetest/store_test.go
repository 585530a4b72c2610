package fencetest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencetest"
)

// store is a storage in memory, guarded as it should be.
type store struct {
	fence.Memory
	mu     sync.Mutex
	values map[string]string
}

func (s *store) Write(_ context.Context, resource string, token locker.Token, value string) error {
	return s.Do(resource, token, func() error {
		s.set(resource, value)
		return nil
	})
}

func (s *store) set(resource, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[resource] = value
}

func (s *store) Read(_ context.Context, resource string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[resource], nil
}

func newStore() *store { return &store{values: make(map[string]string)} }

func TestMemory(t *testing.T) {
	s := newStore()
	fencetest.Run(t, fencetest.Harness{
		Open:  func() (fencetest.Store, error) { return s, nil },
		Crash: func() error { return nil }, // there is nothing that could be lost
	})
}
