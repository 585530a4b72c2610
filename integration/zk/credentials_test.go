//go:build unix

package zk

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// TestZkDemandedCredentials is about servers that execute nothing before a session has given
// credentials. No session outlives its Locker there.
func TestZkDemandedCredentials(t *testing.T) {
	itest.NeedServers(t)
	s := startZkDump(t, "enforce.auth.enabled=true", "enforce.auth.schemes=digest")
	l, other := s.Open(t), s.Open(t)
	itest.HandOver(t, l, other, step.LockName(t))
	step.Close(t, l)
	step.Close(t, other)
	s.wantNoSessions(t)
}

// TestZkRefusedCredentials is about credentials that the servers refuse. Opening says so, and leaves at
// most one session, until its timeout is over. The sessions that show the bounds are ended; one of them
// has the longest timeout.
func TestZkRefusedCredentials(t *testing.T) {
	itest.NeedServers(t)
	s := startZkDump(t)
	ctx, cancel := context.WithTimeout(t.Context(), itest.ShortWait)
	defer cancel()
	_, err := zkbackend.New(ctx, s.Addrs(), zkbackend.WithTick(zkTick), zkbackend.WithDefaultTTL(TTL), zkbackend.WithAuth("nosuch", "x"))
	if err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("New with credentials of an unknown scheme = %v, want an error that speaks of credentials", err)
	}
	s.wantNoSessions(t)
}

// startZkDump starts an ensemble that lists its sessions.
func startZkDump(t *testing.T, config ...string) *Service {
	t.Helper()
	return itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*Service, error) {
		all := append([]string{"initLimit=20", "syncLimit=8", "maxSessionTimeout=600000", "4lw.commands.whitelist=srvr,dump"}, config...)
		s, err := startZkEnsemble(ctx, image, zkTick, all...)
		if err == nil {
			s.options = append(s.options, zkbackend.WithTick(zkTick))
		}
		return s, err
	})
}

// wantNoSessions waits until there is no session but the administrator's.
func (s *Service) wantNoSessions(t *testing.T) {
	t.Helper()
	step.Eventually(t, itest.ShortWait, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		text, err := leader.answer(ctx, "dump")
		sessions, _, _ := strings.Cut(text, "ephemeral nodes dump")
		if err == nil && strings.Count(sessions, "\n\t0x") != 1 {
			err = fmt.Errorf("want one session, the administrator's: %s", text)
		}
		return err
	})
}
