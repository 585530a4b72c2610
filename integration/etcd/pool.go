//go:build unix

package etcd

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// etcdClusters are clusters of one kind, for tests that run in parallel. Each test has a cluster of
// its own: it may kill the cluster, and count everything that happens there. A cluster is started
// when it is needed, and the one that was used last is used first.
type etcdClusters struct {
	first  *Service
	places chan struct{} // one for each that is taken

	mu    sync.Mutex
	idle  []*Service
	taken map[string]*Service // by the names of tests
}

// maxEtcdClusters is the number of clusters of one kind. Most cases spend their time waiting for
// TTLs to end.
const maxEtcdClusters = 4

// clusters returns the clusters of the service's kind.
func (s *Service) clusters() *etcdClusters {
	s.once.Do(func() {
		s.all = &etcdClusters{
			first: s, places: make(chan struct{}, maxEtcdClusters), idle: []*Service{s}, taken: make(map[string]*Service),
		}
	})
	return s.all
}

// take gives a test a cluster until the test ends.
func (c *etcdClusters) take(t conformance.T) *Service {
	t.Helper()
	c.places <- struct{}{}
	t.Cleanup(func() { <-c.places })
	s, err := c.next(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.mu.Lock()
	c.taken[t.Name()] = s
	c.mu.Unlock()
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.taken, t.Name())
		c.idle = append(c.idle, s)
	})
	return s
}

func (c *etcdClusters) next(ctx context.Context) (*Service, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		defer c.mu.Unlock()
		s := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return s, nil
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return c.first.another(ctx)
}

// of returns the cluster that a test has taken.
func (c *etcdClusters) of(t conformance.T) *Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken[t.Name()]
}

// cases converts the cases of one cluster into cases that run on the cluster that their test has
// taken.
func (c *etcdClusters) cases(of func(*Service) []conformance.Case) []conformance.Case {
	cases := of(c.first)
	for i := range cases {
		cases[i].Run = func(t conformance.T, h *conformance.Harness) { of(c.of(t))[i].Run(t, h) }
	}
	return cases
}

// sideBySide runs the cases of the suite in parallel, as many at a time as the run allows.
func sideBySide(t *testing.T, run func(t *testing.T)) {
	if ofCase(t) {
		t.Parallel()
	}
	run(t)
}

var isCase = regexp.MustCompile(`/[A-Z]+[0-9][^/]*$`)

// ofCase reports whether a test runs one case, and not the whole suite.
func ofCase(t conformance.T) bool {
	return isCase.MatchString(t.Name())
}
