//go:build unix

package zk

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/internal/zkconn"
)

// TestZkSessionIsClosed is about the servers' answer to the request that ends a session: zkconn/gone.go
// rests on it. TestZkTLS has the same on servers that use Netty, with TLS and without.
func TestZkSessionIsClosed(t *testing.T) {
	itest.NeedServers(t)
	s := Ensemble(t)
	s.closes(t, s.Addrs(), s.counter.dial)
}

// closes ends sessions that are silent, and one that its client closes. Their nodes must be gone at once,
// and not when the servers miss the session.
func (s *Service) closes(t *testing.T, addrs []string, dial zkconn.Dialer) {
	t.Helper()
	ensemble := &zkconn.Ensemble{Servers: addrs, Dial: dial, Auth: []zkconn.Credentials{{Scheme: "digest", Secret: zkUser + ":" + zkPassword}}}
	for cause, confirmed := range map[error]bool{
		zkconn.ErrSilent: true, // each server is asked on a connection of its own, and "closed" is proof
		context.Canceled: false,
	} {
		session := ensemble.New(zkconn.Config{
			Timeout: zkLongTTL, AnswerTimeout: itest.ShortWait, HoldAfter: itest.ShortWait, Interval: time.Second, Events: noEvents{},
		})
		if err := session.Open(t.Context()); err != nil {
			t.Fatalf("Open = %v", err)
		}
		path := zkRoot + "/" + step.LockName(t)
		node := &zk.CreateRequest{Path: path, Acl: zk.AuthACL(zk.PermAll), Flags: zk.FlagEphemeral}
		if _, _, err := session.Transaction(node); err != nil {
			t.Fatalf("Transaction = %v", err)
		}
		session.End(cause)
		select {
		case <-session.Closed():
		case <-time.After(itest.ShortWait):
			t.Fatal("its client goes on")
		}
		if session.IsGone() != confirmed {
			t.Errorf("%v: the servers' answer that the session is closed was understood: %v, want %v", cause, session.IsGone(), confirmed)
		}
		// A client waits for the answer for a second at most, and a server's disk may stall for longer.
		step.Eventually(t, itest.ShortWait, func() error {
			if _, err := s.admin.Sync("/"); err != nil {
				return err
			}
			there, _, err := s.admin.Exists(path)
			if there {
				err = fmt.Errorf("%w: the session's node is there, and it was closed", cause)
			}
			return err
		})
	}
}

type noEvents struct{}

func (noEvents) Connected(zkconn.Confirmation) {}
func (noEvents) Lost(error)                    {}
func (noEvents) NodeDeleted(string)            {}
func (noEvents) NodeChanged(string)            {}
func (noEvents) HasNodes() bool                { return true }
func (noEvents) Heartbeat()                    {}
func (noEvents) Woken()                        {}
