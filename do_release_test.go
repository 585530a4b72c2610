package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// When fn has returned nil, the error says whether its work is valid.
func TestTheErrorSaysWhetherTheWorkIsValid(t *testing.T) {
	type site struct {
		s    *membackend.Server
		link *membackend.Link
		l    locker.Locker
	}
	expire := func(ctx context.Context, s site) {
		s.s.Expire("a")
		<-ctx.Done()
	}
	cut := func(_ context.Context, s site) { s.link.Cut() }
	both := func(ctx context.Context, s site) { expire(ctx, s); cut(ctx, s) }
	do := func(ctx context.Context, s site, meanwhile func(context.Context, site)) error {
		return locker.Do(ctx, s.l, "a", func(ctx context.Context, _ locker.Lease) error { meanwhile(ctx, s); return nil })
	}
	doPermit := func(ctx context.Context, s site, meanwhile func(context.Context, site)) error {
		return locker.DoPermit(ctx, s.l, "a", 1, func(ctx context.Context, _ locker.Lease) error { meanwhile(ctx, s); return nil })
	}
	doAll := func(ctx context.Context, s site, meanwhile func(context.Context, site)) error {
		return locker.DoAll(ctx, s.l, locker.Wants("a", "b"), func(ctx context.Context, _ *locker.LeaseSet) error { meanwhile(ctx, s); return nil })
	}
	for name, tc := range map[string]struct {
		do                func(context.Context, site, func(context.Context, site)) error
		meanwhile         func(context.Context, site)
		lost, unconfirmed bool
	}{
		"Do, not confirmed":             {do, cut, false, true},
		"Do, lost":                      {do, expire, true, false},
		"Do, lost, then cut off":        {do, both, true, false},
		"DoPermit, not confirmed":       {doPermit, cut, false, true},
		"DoAll, not confirmed":          {doAll, cut, false, true},
		"DoAll, one lost":               {doAll, expire, true, false},
		"DoAll, one lost, one in doubt": {doAll, both, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := site{s: membackend.NewServer(), link: membackend.NewLink()}
				s.l = membackend.New(membackend.WithServer(s.s), membackend.WithLink(s.link))
				err := tc.do(t.Context(), s, tc.meanwhile)
				if errors.Is(err, locker.ErrLost) != tc.lost || errors.Is(err, locker.ErrUnconfirmed) != tc.unconfirmed {
					t.Errorf("the error is %v, want ErrLost: %v, ErrUnconfirmed: %v", err, tc.lost, tc.unconfirmed)
				}
				s.link.Heal()
				if err := s.l.Close(); err != nil {
					t.Errorf("Close = %v, want nil: the removal has gone on", err)
				}
			})
		})
	}
}
