package leader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	office   = "office"
	ttl      = 30 * time.Second
	validity = ttl - ttl/100 - 2*time.Millisecond
)

var (
	errService  = errors.New("connection refused")
	errPassword = errors.New("wrong password")
)

// site is a candidate's machine: a Locker and its network.
type site struct {
	locker.Locker
	link *membackend.Link
}

func newSite(t *testing.T, s *membackend.Server) site {
	t.Helper()
	link := membackend.NewLink()
	l := membackend.New(membackend.WithServer(s), membackend.WithLink(link))
	t.Cleanup(func() {
		link.Heal()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return site{l, link}
}

// running is a call of Run in the background.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(t *testing.T, l locker.Locker, lead func(context.Context, leader.Term) error, opts ...leader.Option) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = leader.Run(ctx, l, office, lead, opts...)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	synctest.Wait()
	return r
}

// lead sends its term and leads until the end of its context.
func lead(terms chan<- leader.Term) func(context.Context, leader.Term) error {
	return func(ctx context.Context, t leader.Term) error {
		terms <- t
		<-ctx.Done()
		return nil
	}
}

// book notes what an observer is told.
type book struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the last one
	lines   []string
	cause   error // of the last end
	failure error // the last one
}

func (b *book) Observe(ctx context.Context, e leader.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx, b.lines = ctx, append(b.lines, e.Kind.String())
	switch e.Kind {
	case leader.EventEnded:
		b.cause = e.Err
	case leader.EventAcquisitionFailed:
		b.failure = e.Err
	}
}

func (b *book) take() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

func (b *book) lastCause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

func (b *book) lastFailure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

func since(began time.Time) time.Duration { return time.Since(began) }
