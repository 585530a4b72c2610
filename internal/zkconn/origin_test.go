package zkconn

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Servers of one ensemble agree on the creation of a node. What a server must say to be taken for one
// of another ensemble, and what says nothing.
func TestForeign(t *testing.T) {
	own := Origin{Czxid: 7, Ctime: 1000}
	for what, c := range map[string]struct {
		other   *ensemble
		down    bool
		foreign bool
		open    int // sessions that are left to their timeout
	}{
		"the same node":                          {other: &ensemble{origin: own}},
		"another transaction":                    {other: &ensemble{origin: Origin{8, 1000}}, foreign: true},
		"another time":                           {other: &ensemble{origin: Origin{7, 1001}}, foreign: true},
		"no node":                                {other: new(ensemble), foreign: true},
		"no node, but no quorum":                 {other: &ensemble{alone: true}},
		"no node, but the answers are lost":      {other: &ensemble{unheard: true}, open: 1},
		"a server that hangs up on the farewell": {other: &ensemble{rude: true}, foreign: true},
		"one that wants credentials":             {other: &ensemble{strict: true, origin: own}},
		"one that refuses them":                  {other: &ensemble{refuses: true}},
		"one that does both":                     {other: &ensemble{refuses: true, strict: true}, open: 1},
		"one that is down":                       {other: new(ensemble), down: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home := &ensemble{origin: own}
				s := openSession(t, home, new(recorder))
				defer func() { s.End(ErrOver); <-s.Closed() }()
				s.ensemble = &Ensemble{Servers: []string{"other:2181", "zk:2181", "other:2181"}, Auth: []Credentials{{"digest", "joe:secret"}}}
				s.ensemble.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					switch {
					case addr != "other:2181":
						t.Errorf("%s was asked, which has confirmed the session", addr)
					case c.down:
						return nil, errors.New("connection refused")
					}
					return c.other.dial(ctx, network, addr)
				}
				want := ""
				if c.foreign {
					want = "other:2181"
				}
				began := time.Now()
				at, foreign := s.Foreign(t.Context(), time.Second, "/locker", own)
				if at != "zk:2181" || foreign != want || time.Since(began) > time.Second {
					t.Errorf("Foreign = %q, %q after %v, want zk:2181 and %q after 1s at most", at, foreign, time.Since(began), want)
				}
				c.other.mu.Lock()
				defer c.other.mu.Unlock()
				if c.other.opened > 1 || c.other.opened-len(c.other.ended) != c.open && !c.other.unheard {
					t.Errorf("%d sessions were opened, and %d ended", c.other.opened, len(c.other.ended))
				}
			})
		})
	}
}

// All addresses are asked at the same time, and a silent one has a limit. That includes a server that
// isn't reached.
func TestForeignAsksAllAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, new(ensemble), new(recorder))
		defer func() { s.End(ErrOver); <-s.Closed() }()
		s.ensemble = &Ensemble{Servers: []string{"zk:2181", "silent:2181", "far:2181", "other:2181"}}
		s.ensemble.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch addr {
			case "silent:2181":
				return (&ensemble{unheard: true}).dial(ctx, network, addr)
			case "far:2181":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(ensemble).dial(ctx, network, addr)
		}
		began := time.Now()
		if _, foreign := s.Foreign(t.Context(), time.Second, "/locker", Origin{7, 1000}); foreign != "other:2181" || time.Since(began) != time.Second {
			t.Errorf("Foreign = %q after %v, want other:2181 after 1s", foreign, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		_, _ = s.Foreign(ctx, time.Second, "/locker", Origin{7, 1000})
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("Foreign returned %v after its context was given, want 100ms", took)
		}
	})
}
