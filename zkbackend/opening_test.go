package zkbackend_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/zkbackend"
)

// Opening ends with its context, whatever it waits for at that moment.
func TestOpeningIsGivenUp(t *testing.T) {
	for what, stall := range map[string]func(*server){
		"the first contact":           func(s *server) { s.muted = true },
		"the trial of what is needed": func(s *server) { s.once("multi", ignore) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				stall(s)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				began := time.Now()
				_, err := zkbackend.NewDriver(ctx, []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDialer(s.dial))
				if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 150*time.Millisecond {
					t.Errorf("NewDriver = %v after %v, want Canceled after 100ms", err, took)
				}
				time.Sleep(soon) // its goroutines end a little later
			})
		})
	}
}

// A client that was given a chroot needs no permission on the nodes above it. (Since 3.8.4 and
// 3.9.2 servers want one even for the question whether a node exists.)
func TestOpenBelowANodeOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		root := zkbackend.WithChroot("/team/locks")
		_ = open(t, s, root).Close() // now it is there
		s.scripts(func(r request) verdict {
			if r.path == "/team" {
				return refuse
			}
			return serve
		})
		release(t, acquire(t, open(t, s, root), "a"))
	})
}

// Somebody may delete the chroot while a Locker is opened. The error names it.
func TestChrootIsDeletedWhileOpening(t *testing.T) {
	for before, first := range map[string]request{
		"the chroot is created":            {op: "create", path: "/team/locks"},
		"the trial of what is needed":      {op: "multi"},
		"it is looked at after that trial": {op: "exists", path: "/team/locks"},
	} {
		t.Run(before, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				tried := false
				s.scripts(func(r request) verdict {
					tried = tried || r.op == "multi"
					if r.op == first.op && r.path == first.path && (first.op != "exists" || tried) {
						s.tree.remove("/team/locks")
						s.tree.remove("/team")
					}
					return serve
				})
				_, err := s.new(zkbackend.WithTick(tick), zkbackend.WithChroot("/team/locks"))
				if !errors.Is(err, zk.ErrNoNode) || strings.Count(err.Error(), "/team/locks") != 1 {
					t.Errorf("New = %v, want that the chroot doesn't exist, with its path", err)
				}
			})
		})
	}
}
