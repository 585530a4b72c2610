package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/middleware"
)

// TestConformance runs the whole suite.
func TestConformance(t *testing.T) {
	conformance.Run(t, harness)
}

// TestExplore runs random programs: what the cases of the suite don't try.
func TestExplore(t *testing.T) {
	conformance.Explore(t, harness, conformance.Budget{Time: 5 * time.Second})
}

// harness runs each case in a bubble in which time flies. The network is a link in this process,
// which the suite can cut, delay and break.
var harness = conformance.Harness{
	TTL: time.Second, Slack: 10 * time.Millisecond, Wrap: synctest.Test, Strict: true,
	Setup: func(_ conformance.T, h *conformance.Harness) {
		s := &service{store: newStore()}
		h.Open = func(conformance.T) locker.Locker { return s.open(s.link()) }
		h.Hooks = s.hooks()
	},
}

// service is the store as the suite disturbs it.
type service struct {
	*store
	mu       sync.Mutex
	requests int64
	down     bool
	resumed  chan struct{} // while it is paused
	links    []*link
}

func (s *service) open(l *link) locker.Locker { return New("http://store", &http.Client{Transport: l}) }

func (s *service) hooks() conformance.Hooks {
	set := func(change func()) func(conformance.T) {
		return func(conformance.T) {
			s.mu.Lock()
			defer s.mu.Unlock()
			change()
		}
	}
	lose := func(conformance.T) {
		for _, l := range s.links {
			l.Sever()
		}
		time.Sleep(time.Millisecond) // so that its clock is past its last token
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		clear(s.owners)
		clear(s.released)
		s.last = 0
	}
	return conformance.Hooks{
		Linked: func(conformance.T) (locker.Locker, conformance.Link) {
			l := s.link()
			return s.open(l), l
		},
		Process: func(t conformance.T) process.Process {
			l := s.link()
			return inProcess(t, s.open(l), l)
		},
		Pause:    set(func() { s.resumed = make(chan struct{}) }),
		Resume:   set(func() { close(s.resumed); s.resumed = nil }),
		Down:     set(func() { s.down = true }),
		Up:       set(func() { s.down = false }),
		Restart:  lose, // nothing is kept
		Wipe:     lose,
		Remove:   func(_ conformance.T, name string) { s.store.mu.Lock(); delete(s.owners, name); s.store.mu.Unlock() },
		Requests: func(conformance.T) int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.requests },
		Residue: func(conformance.T) string {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			return strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(s.owners)), func(name string) bool {
				_, held := s.holder(name)
				return !held
			}), ", ")
		},
		Prefixed: func(t conformance.T, prefix string) locker.Locker {
			l, err := middleware.Prefix(s.open(s.link()), prefix)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return l
		},
		Absent: map[conformance.Hook]string{
			conformance.HookForgetful: "a simulated link has no connections that it could forget",
			conformance.HookURL:       "it has no URL",
			conformance.HookBadURLs:   "it has no URL",
			conformance.HookFailover:  "there is one server",
			conformance.HookSkewed:    "all holders are in this process, with one clock",
		},
	}
}

// serve is what happens when a request arrives: now, or when a pause ends.
func (s *service) serve(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	resumed := s.resumed
	s.mu.Unlock()
	if resumed != nil {
		<-resumed
	}
	s.mu.Lock()
	down := s.down
	if !down {
		s.requests++
	}
	s.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// inProcess makes a process of a Locker: one that was killed or stopped is one from which the
// service hears nothing.
func inProcess(t conformance.T, l locker.Locker, network *link) process.Process {
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- process.Serve(l, in, out) }()
	t.Cleanup(func() {
		network.Heal()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		_, _ = commands.Close(), answers.Close()
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	return process.New(commands, answers, network.Cut, network.Cut, network.Heal)
}
