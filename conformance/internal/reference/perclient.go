package reference

import "sync"

// perClient is what a mutation keeps of each client.
type perClient[T any] struct {
	mu sync.Mutex
	of map[*client]T
}

func newPerClient[T any]() *perClient[T] { return &perClient[T]{of: make(map[*client]T)} }

func (p *perClient[T]) get(c *client) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[c]
}

func (p *perClient[T]) update(c *client, f func(T) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[c] = f(p.of[c])
	return p.of[c]
}
