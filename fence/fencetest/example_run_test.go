package fencetest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencetest"
)

// cache is a storage of one's own: values in memory, and next to each the highest token.
type cache struct {
	guard  fence.Memory
	mu     sync.Mutex
	values map[string]string
}

func (c *cache) Claim(ctx context.Context, resource string, token locker.Token) error {
	return c.guard.Claim(ctx, resource, token)
}

func (c *cache) Write(_ context.Context, resource string, token locker.Token, value string) error {
	return c.guard.Do(resource, token, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.values[resource] = value
		return nil
	})
}

func (c *cache) Read(_ context.Context, resource string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[resource], nil
}

// A test runs the suite on a storage of one's own. Without Crash the case about a crash is skipped.
func TestCache(t *testing.T) {
	data := &cache{values: make(map[string]string)}
	fencetest.Run(t, fencetest.Harness{Open: func() (fencetest.Store, error) { return data, nil }})
}

// TestCache shows the use of Run: it is a test of the storage that is called cache.
func ExampleRun() {
	var t *testing.T // of TestCache
	TestCache(t)
}
