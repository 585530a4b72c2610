//go:build unix

package zk

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestList(t *testing.T) {
	s := Ensemble(t)
	itest.List(t, itest.ListTarget{
		Open:     func() locker.Locker { return s.Open(t) },
		Names:    true,
		Requests: func() int64 { return s.counter.n.Load() },
		ByHand:   func(context.Context) (int, error) { return s.readAll() },
	})
}

// readAll reads the children of the root, and of each of them the children and the first one's
// data, with 64 requests under way.
func (s *Service) readAll() (n int, err error) {
	names, _, err := s.admin.Children(zkRoot)
	if err != nil {
		return 0, err
	}
	jobs := make(chan string, len(names))
	for _, name := range names {
		jobs <- zkDir(name)
	}
	close(jobs)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for dir := range jobs {
				nodes, _, failed := s.admin.Children(dir)
				if failed == nil && len(nodes) > 0 {
					_, _, failed = s.admin.Get(dir + "/" + nodes[0])
				}
				mu.Lock()
				err = errors.Join(err, failed)
				n += len(nodes)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return n, err
}
