package zkbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

func refusedAtOpen(t *testing.T, s *server) {
	t.Helper()
	began := time.Now()
	l, err := s.new(zkbackend.WithTick(tick), zkbackend.WithDigest("joe", "secret"))
	if !contains(err, "credentials") || contains(err, "secret") {
		t.Errorf("New = %v, %v, want an error that speaks of the credentials", l, err)
	}
	if took := time.Since(began); took > time.Second*3/2 {
		t.Errorf("New took %v", took)
	}
}

// A session that is refused when it connects again is left alone, so that the servers end it.
// Useless connects would keep it alive forever.
func TestCredentialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"))
		lease := acquire(t, l, "a")
		w := wait(t, l, "a")
		script, count := storm(reject, "auth")
		s.scripts(script)
		s.sever()
		lost(t, ttl/4, lease, "credentials")
		<-w.done
		if !contains(w.err, "credentials") {
			t.Errorf("Acquire of a waiter = %v, want an error that speaks of the credentials", w.err)
		}
		for range 3 {
			began := time.Now()
			_, err := l.Acquire(t.Context(), "a")
			if took := time.Since(began); !contains(err, "credentials") || errors.Is(err, locker.ErrHeld) || took > time.Second {
				t.Errorf("Acquire = %v after %v, want soon an error that speaks of the credentials", err, took)
			}
		}
		s.mu.Lock()
		old := 0
		for _, session := range s.connects {
			if session == 3 {
				old++
			}
		}
		if old != 1 || count() > 20 {
			t.Errorf("the session has connected again %d times, want once; %d times were the credentials refused", old, count())
		}
		s.mu.Unlock()
		refusedAtOpen(t, s)

		// What has been left is removed as soon as that can be.
		s.scripts(nil)
		s.nodesAre(t, "a", 0)
		release(t, acquire(t, l, "a"))
	})
}

func TestCloseWhileCredentialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, err := s.new(zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDigest("joe", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		script, _ := storm(reject, "auth")
		s.scripts(script)
		s.sever()
		began := time.Now()
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A server that alone refuses the credentials: the acquisition goes on under another session, and
// the node that it may have made under the first is not taken for its own.
func TestRefusedWhileInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"))
		release(t, acquire(t, l, "a"))
		multis, auths := 0, 0
		s.scripts(func(r request) verdict {
			switch r.op {
			case "multi":
				if multis++; multis == 1 {
					return hangUpAfter
				}
			case "auth":
				if auths++; auths == 1 {
					return reject
				}
			}
			return serve
		})
		lease := wait(t, l, "a").granted(t)
		if multis < 2 {
			t.Errorf("the node was asked for %d times: this test proves nothing", multis)
		}
		if nodes := s.children("a"); len(nodes) != 1 || s.ownerOf("/locker/a/"+nodes[0]) == 3 {
			t.Errorf("nodes %q, want one, of another session than the first", nodes)
		}
		release(t, lease)
		s.nodesAre(t, "a", 0)
	})
}

// What it has left under both sessions is removed.
func TestReleaseOfWhatWasLeftUnderTwoSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"))
		release(t, acquire(t, l, "a"))
		s.once("multi", hangUpAfter)
		auths := 0
		lostReply := s.script
		unseen := true // so that it finds out too late that the first node is its own
		s.scripts(func(r request) verdict {
			switch {
			case r.op == "auth":
				if auths++; auths == 1 {
					return reject
				}
			case r.op == "children" && unseen && len(s.tree.nodes["/locker/a"].children) == 2:
				return hangUp
			}
			return lostReply(r)
		})
		w := wait(t, l, "a")
		s.nodesAre(t, "a", 2)
		w.cancel()
		<-w.done
		s.mu.Lock()
		unseen = false
		s.mu.Unlock()
		s.nodesAre(t, "a", 0)
	})
}

// The end of a session says nothing of what was left under an earlier one.
func TestReleaseWhenTheLaterSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl),
			zkbackend.WithDigest("joe", "secret"), zkbackend.WithDialer(s.dial))
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		refuses, ended := true, false
		s.scripts(func(r request) verdict {
			switch {
			case r.op == "auth" && refuses: // which ends the first session here, and not on the servers
				refuses = false
				return reject
			case r.op == "multi" && !ended: // of the removal, on the next one
				ended = true
				s.endSession(r.session)
				return hangUp
			}
			return serve
		})
		s.sever()
		synctest.Wait()
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), ttl)
			err = l.Release(ctx)
			cancel()
			if err == nil {
				break
			}
		}
		if n := len(s.children("a")); err != nil || n != 0 || !ended {
			t.Errorf("Release = %v, and %d nodes exist; want nil and none (the later session was ended: %v)", err, n, ended)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
