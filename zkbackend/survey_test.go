package zkbackend_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// servers are ensembles of one server each, by the address that leads there.
type servers map[string]*server

// open opens a Locker on all of the addresses, without the engine.
func (all servers) open(ctx context.Context, opts ...zkbackend.Option) (driver.Driver, error) {
	addrs := slices.Sorted(maps.Keys(all))
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s := all[addr]; s != nil {
			return s.dial(ctx, network, addr)
		}
		return nil, errors.New("connection refused")
	}
	opts = append([]zkbackend.Option{zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDialer(dial)}, opts...)
	return zkbackend.NewDriver(ctx, addrs, opts...)
}

// openSessions is how many sessions have not ended.
func (s *server) openSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// A lock that is held on one ensemble is free on another. So a Locker that was given addresses of both
// isn't opened. It leaves no session.
func TestAddressesOfDifferentEnsembles(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, b *server){
		"without the chroot": func(*testing.T, *server) {},
		"with a chroot of its own": func(t *testing.T, b *server) {
			b.tree.zxid = 5000
			_ = open(t, b).Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newServer(t), newServer(t)
				prepare(t, b)
				_, err := (servers{"a1:2181": a, "a2:2181": a, "b1:2181": b}).open(t.Context())
				if err == nil || errors.Is(err, locker.ErrOption) || !contains(err, "different ensembles: ") || !contains(err, "b1:2181") {
					t.Fatalf("New = %v, want an error that names both addresses", err)
				}
				if n := strings.Count(err.Error(), ":2181"); n != 2 {
					t.Errorf("New = %v, which names %d addresses, want two", err, n)
				}
				if a, b := a.openSessions(), b.openSessions(); a+b != 0 {
					t.Errorf("%d and %d sessions are left, want none", a, b)
				}
			})
		})
	}
}

// One ensemble may have several addresses, and some of them may not answer.
func TestAddressesOfOneEnsemble(t *testing.T) {
	silent := func(t *testing.T) *server { s := newServer(t); s.muted = true; return s }
	for what, other := range map[string]struct {
		addr string
		make func(t *testing.T) *server
	}{
		"all answer":          {"a3:2181", nil},
		"one is down":         {"c1:2181", func(*testing.T) *server { return nil }},
		"one has no quorum":   {"c1:2181", func(t *testing.T) *server { s := newServer(t); s.down = true; return s }},
		"one is silent":       {"c1:2181", silent},
		"the first is silent": {"a0:2181", silent},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newServer(t)
				all := servers{"a1:2181": a, "a2:2181": a}
				if other.make != nil {
					all[other.addr] = other.make(t)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a silent server doesn't take all of it
				defer cancel()
				d, err := all.open(ctx, zkbackend.WithDigest("joe", "secret"))
				if err != nil {
					t.Fatalf("New = %v, want nil", err)
				}
				if n := a.openSessions(); n != 1 {
					t.Errorf("%d sessions are left, want the Locker's own", n)
				}
				if err := d.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}

// Somebody may delete the chroot while the addresses are compared. That is no other ensemble.
func TestChrootIsDeletedWhileAddressesAreCompared(t *testing.T) {
	for what, again := range map[string]bool{"deleted": false, "and created again": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newServer(t)
				trials := 0
				a.scripts(func(r request) verdict {
					if r.op != "multi" {
						return serve
					}
					if trials++; trials == 2 { // the first one is the trial of what is needed
						a.tree.remove("/locker")
						if again {
							a.tree.create("/locker", 0, 0)
						}
					}
					return serve
				})
				d, err := (servers{"a1:2181": a, "a2:2181": a, "a3:2181": a}).open(t.Context())
				if err != nil {
					t.Fatalf("New = %v, want nil", err)
				}
				if err := d.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}

// An opening that is given up while the addresses are compared fails at once.
func TestSurveyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newServer(t), newServer(t)
		b.muted = true
		ctx, cancel := context.WithCancel(t.Context())
		a.scripts(func(r request) verdict {
			if r.op == "multi" { // the trial of what is needed, just before
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			return serve
		})
		if _, err := (servers{"a1:2181": a, "b1:2181": b}).open(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("New = %v, want Canceled", err)
		}
		synctest.Wait()
	})
}
