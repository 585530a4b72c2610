package membackend_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/membackend"
)

const ttl = 30 * time.Second

// site is one driver with its network.
type site struct {
	driver.Driver
	*membackend.Link
	t *testing.T
}

func newSite(t *testing.T, s *membackend.Server) site {
	link := membackend.NewLink()
	d := membackend.NewDriver(membackend.WithServer(s), membackend.WithLink(link))
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return site{d, link, t}
}

// acquisition is a lock and the causes with which its lost callback was called.
type acquisition struct {
	driver.Lock
	lost chan error
}

func (s site) lock(req locker.Request) acquisition {
	s.t.Helper()
	if req.Name == "" {
		req.Name = "name"
	}
	if req.TTL == 0 {
		req.TTL = ttl
	}
	lost := make(chan error, 10)
	l, err := s.Lock(req, func(cause error) { lost <- cause })
	if err != nil {
		s.t.Fatalf("Lock = %v", err)
	}
	return acquisition{l, lost}
}

// held is a lock that was granted at once.
func (s site) held(req locker.Request) (acquisition, driver.Grant) {
	s.t.Helper()
	l := s.lock(req)
	g, err := l.Acquire(s.t.Context())
	if err != nil {
		s.t.Fatalf("Acquire = %v, want a grant", err)
	}
	return l, g
}

// queued is a lock that has its place in the queue.
func (s site) queued(req locker.Request) acquisition {
	s.t.Helper()
	l := s.lock(req)
	if _, err := l.Acquire(s.t.Context()); !errors.Is(err, driver.ErrQueued) {
		s.t.Fatalf("Acquire = %v, want %v", err, driver.ErrQueued)
	}
	return l
}

func (s site) renew(locks ...driver.Lock) (bases []driver.Instant, errs []error) {
	s.t.Helper()
	bases, errs = make([]driver.Instant, len(locks)), make([]error, len(locks))
	reports := make([]int, len(locks))
	s.Renew(s.t.Context(), locks, func(i int, base driver.Instant, err error) {
		bases[i], errs[i] = base, err
		reports[i]++
	})
	for i, n := range reports {
		if n != 1 {
			s.t.Errorf("Renew reported lock %d %d times, want once", i, n)
		}
	}
	return bases, errs
}

func mustRelease(t *testing.T, locks ...acquisition) {
	t.Helper()
	for _, l := range locks {
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
}

func wantResidue(t *testing.T, s *membackend.Server, want string) {
	t.Helper()
	if got := s.Residue(); got != want {
		t.Errorf("Residue = %q, want %q", got, want)
	}
}
