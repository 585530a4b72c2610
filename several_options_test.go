package locker_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// ttls notes with which TTL each lock was asked for, without waiting and by waiting.
type ttls struct {
	locker.Locker
	mu             sync.Mutex
	tried, awaited map[string]time.Duration
}

func (l *ttls) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	if req.NoWait {
		l.tried[name] = req.TTL
	} else {
		l.awaited[name] = req.TTL
	}
	l.mu.Unlock()
	return l.Locker.Acquire(ctx, name, opts...)
}

// severalCalls are all the calls for several locks, without what they do with the leases.
var severalCalls = map[string]func(context.Context, locker.Locker, []locker.Want, ...locker.Option) error{
	"AcquireAll": func(ctx context.Context, l locker.Locker, wants []locker.Want, opts ...locker.Option) error {
		return releaseSet(ctx)(locker.AcquireAll(ctx, l, wants, opts...))
	},
	"TryAcquireAll": func(ctx context.Context, l locker.Locker, wants []locker.Want, opts ...locker.Option) error {
		return releaseSet(ctx)(locker.TryAcquireAll(ctx, l, wants, opts...))
	},
	"AcquireInOrder": func(ctx context.Context, l locker.Locker, wants []locker.Want, opts ...locker.Option) error {
		var items []locker.Item
		for _, want := range wants {
			items = append(items, locker.Item{Locker: l, Want: want})
		}
		return releaseSet(ctx)(locker.AcquireInOrder(ctx, items, opts...))
	},
	"DoAll": func(ctx context.Context, l locker.Locker, wants []locker.Want, opts ...locker.Option) error {
		return locker.DoAll(ctx, l, wants, func(context.Context, *locker.LeaseSet) error { return nil }, opts...)
	},
}

func releaseSet(ctx context.Context) func(*locker.LeaseSet, error) error {
	return func(leases *locker.LeaseSet, err error) error {
		switch {
		case err != nil && leases != nil:
			return errors.New("there are leases and an error")
		case err != nil:
			return err
		}
		return leases.Release(ctx)
	}
}

// The options of the call hold for each lock, and the options of a want win.
func TestOptionsOfSeveralLocks(t *testing.T) {
	for what, call := range severalCalls {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *membackend.Server) {
				l := &ttls{Locker: openMem(t, s), tried: map[string]time.Duration{}, awaited: map[string]time.Duration{}}
				b, err := openMem(t, s).Acquire(t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				wants := []locker.Want{{Name: "a"}, {Name: "b", Opts: []locker.Option{locker.WithTTL(time.Minute)}}}
				go func() { done <- call(t.Context(), l, wants, locker.WithTTL(time.Hour)) }()
				synctest.Wait()
				release(t, b)
				want, awaited := map[string]time.Duration{"a": time.Hour, "b": time.Minute}, map[string]time.Duration{"b": time.Minute}
				err = <-done
				if what == "TryAcquireAll" {
					awaited = nil
					wantErr(t, what, err, "b", locker.ErrHeld)
				} else if err != nil {
					t.Errorf("%s = %v", what, err)
				}
				if !maps.Equal(l.tried, want) || !maps.Equal(l.awaited, awaited) {
					t.Errorf("the TTLs are %v, and of waits %v, want %v and %v", l.tried, l.awaited, want, awaited)
				}
			})
		})
	}
}

// NoWait of the call holds for each lock. In one want it is a mistake.
func TestNoWaitOfSeveralLocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		held, err := other.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range severalCalls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			before := s.Requests()
			err := call(ctx, l, locker.Wants("a", "b"), locker.NoWait())
			wantErr(t, what, err, "a", locker.ErrHeld)
			if n := s.Requests() - before; n != 3 || ctx.Err() != nil {
				t.Errorf("%s with NoWait = %v, with %d requests, want one for each lock, and a release of one", what, err, n)
			}
			cancel()
			before = s.Requests()
			err = call(t.Context(), l, []locker.Want{{Name: "a"}, {Name: "b", Opts: []locker.Option{locker.NoWait()}}})
			wantErr(t, what, err, "b", locker.ErrOption)
			if n := s.Requests() - before; n != 0 {
				t.Errorf("%s with NoWait in one want has sent %d requests", what, n)
			}
		}
		release(t, held)
	})
}

// A slice of options with room for more may be the caller's own, for other calls.
func TestSeveralLocksLeaveTheCallersOptionsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		for what, call := range severalCalls {
			room := func() []locker.Option { return append(make([]locker.Option, 0, 4), locker.WithTTL(time.Hour)) }
			all, own := room(), room()
			if err := call(t.Context(), openMem(t, s), []locker.Want{{Name: "a", Opts: own}, {Name: "b"}}, all...); err != nil {
				t.Errorf("%s = %v", what, err)
			}
			for _, opts := range [][]locker.Option{all, own} {
				if slices.ContainsFunc(opts[1:4], func(o locker.Option) bool { return o != nil }) {
					t.Errorf("%s has written into a slice of options", what)
				}
			}
		}
	})
}

func TestSeveralLocksRefuseBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		for what, tc := range map[string]struct {
			wants []locker.Want
			opt   locker.Option // of the call; nil: none
			match error
		}{
			"no want":       {nil, nil, locker.ErrOption},
			"a name twice":  {locker.Wants("a", "b", "a"), nil, locker.ErrName},
			"a bad name":    {locker.Wants("a", ""), nil, locker.ErrName},
			"the last want": {append(locker.Wants("a", "b"), locker.Want{Name: "c", Opts: []locker.Option{locker.WithMaxHold(1)}}), nil, locker.ErrOption},

			"a bad option":         {[]locker.Want{{Name: "a", Opts: []locker.Option{locker.WithTTL(-1)}}}, nil, locker.ErrOption},
			"longest hold":         {[]locker.Want{{Name: "a", Opts: []locker.Option{locker.WithMaxHold(1)}}}, nil, locker.ErrOption},
			"minimum hold":         {[]locker.Want{{Name: "a", Opts: []locker.Option{locker.WithMinHold(1)}}}, nil, locker.ErrOption},
			"not renewed":          {[]locker.Want{{Name: "a", Opts: []locker.Option{locker.WithoutRenewal()}}}, nil, locker.ErrOption},
			"a bad option for all": {locker.Wants("a"), locker.WithTTL(-1), locker.ErrOption},
			"longest hold for all": {locker.Wants("a"), locker.WithMaxHold(1), locker.ErrOption},
			"minimum hold for all": {locker.Wants("a"), locker.WithMinHold(1), locker.ErrOption},
			"not renewed for all":  {locker.Wants("a"), locker.WithoutRenewal(), locker.ErrOption},
		} {
			var opts []locker.Option
			if tc.opt != nil {
				opts = append(opts, tc.opt)
			}
			for name, call := range severalCalls {
				if err := call(t.Context(), l, tc.wants, opts...); !errors.Is(err, tc.match) {
					t.Errorf("%s with %s = %v, want %v", name, what, err, tc.match)
				}
			}
		}
		if n := s.Requests(); n != 0 {
			t.Errorf("%d requests were sent for bad arguments", n)
		}
	})
}
