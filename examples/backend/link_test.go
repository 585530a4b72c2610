package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

func (s *service) link() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &link{s: s, broken: make(chan struct{})}
	s.links = append(s.links, l)
	return l
}

// link is the network of one client.
type link struct {
	s           *service
	mu          sync.Mutex
	cut         bool
	drops       int
	there, back time.Duration
	broken      chan struct{}
}

// RoundTrip carries a request to the service and its answer back. A client that leaves doesn't take
// back what it has sent.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	sent := r.Clone(context.WithoutCancel(r.Context()))
	sent.Body = io.NopCloser(bytes.NewReader(body))
	type answer struct {
		res *http.Response
		err error
	}
	answers := make(chan answer, 1)
	l.mu.Lock()
	there, back, broken := l.there, l.back, l.broken
	l.mu.Unlock()
	after(there, func() {
		if !l.passes(broken) {
			return
		}
		res, err := l.s.serve(sent)
		if l.dropped() {
			return
		}
		after(back, func() {
			if l.passes(broken) {
				answers <- answer{res, err}
			}
		})
	})
	select {
	case a := <-answers:
		return a.res, a.err
	case <-broken:
		return nil, errors.New("connection was reset")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// after calls f after d. It makes no timer that fires at once: in a bubble, with the race detector,
// two of those at the same time crash Go 1.26.
func after(d time.Duration, f func()) {
	if d == 0 {
		go f()
		return
	}
	time.AfterFunc(d, f)
}

func (l *link) passes(broken chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut && l.broken == broken
}

func (l *link) dropped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drops == 0 {
		return false
	}
	l.drops--
	return true
}

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *link) Cut()                            { l.set(func() { l.cut = true }) }
func (l *link) Drop(n int)                      { l.set(func() { l.drops = n }) }
func (l *link) Delay(there, back time.Duration) { l.set(func() { l.there, l.back = there, back }) }
func (l *link) Sever()                          { l.set(func() { close(l.broken); l.broken = make(chan struct{}) }) }
func (l *link) Heal()                           { l.set(func() { l.cut, l.drops, l.there, l.back = false, 0, 0, 0 }) }
