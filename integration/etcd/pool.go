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

// etcdClusters are clusters of one kind, for tests that go on side by side. Each has one for itself: it may kill it, and count all
// that happens there. They are started when they are wanted, and the one that was used last is used first.
type etcdClusters struct {
	first  *Service
	places chan struct{} // one for each that is taken

	mu    sync.Mutex
	idle  []*Service
	taken map[string]*Service // by the names of tests
}

// maxEtcdClusters is how many there are of a kind. Cases mostly wait for the ends of TTLs.
const maxEtcdClusters = 4

// clusters are those of the service's kind.
func (s *Service) clusters() *etcdClusters {
	s.once.Do(func() {
		s.all = &etcdClusters{
			first: s, places: make(chan struct{}, maxEtcdClusters), idle: []*Service{s}, taken: make(map[string]*Service),
		}
	})
	return s.all
}

// take gives a test a cluster, until it ends.
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

// of is the cluster that a test has taken.
func (c *etcdClusters) of(t conformance.T) *Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken[t.Name()]
}

// cases makes cases for whatever cluster their test has taken of those that are made for one.
func (c *etcdClusters) cases(of func(*Service) []conformance.Case) []conformance.Case {
	cases := of(c.first)
	for i := range cases {
		cases[i].Run = func(t conformance.T, h *conformance.Harness) { of(c.of(t))[i].Run(t, h) }
	}
	return cases
}

// sideBySide has the cases of the suite go on at the same time, as many as the tests of the run.
func sideBySide(t *testing.T, run func(t *testing.T)) {
	if ofCase(t) {
		t.Parallel()
	}
	run(t)
}

var isCase = regexp.MustCompile(`/[A-Z]+[0-9][^/]*$`)

// ofCase reports whether a test is that of a case, and not of the whole suite.
func ofCase(t conformance.T) bool {
	return isCase.MatchString(t.Name())
}
