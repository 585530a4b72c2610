//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// TestZkOneEnsemble is about addresses of two ensembles. A lock that is held on one of them is free on
// the other, so a Locker that was given both isn't opened.
func TestZkOneEnsemble(t *testing.T) {
	itest.NeedServers(t)
	s, other := startZkOfOne(t), startZkOfOne(t)
	ours, theirs := s.Addrs()[0], other.Addrs()[0]
	alias := fmt.Sprintf("localhost:%d", s.Servers[0].Port)
	free, err := itest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	down := itest.LocalAddr(free[0])

	for _, addrs := range [][]string{{ours, theirs}, {theirs, ours}, {ours, alias, theirs}, {ours, down, theirs}} {
		for _, root := range []string{zkRoot, "/" + step.LockName(t)} { // one that both have, and one that the first Locker creates
			l, err := s.try(t, addrs, root)
			if err == nil {
				_ = l.Close()
				t.Errorf("New at %q = a Locker, want an error", addrs)
				continue
			}
			t.Logf("New = %v", err)
			names := strings.Contains(err.Error(), theirs) && (strings.Contains(err.Error(), ours) || strings.Contains(err.Error(), alias))
			if !names || !strings.Contains(err.Error(), "different ensembles") || errors.Is(err, locker.ErrOption) {
				t.Errorf("New at %q = %v, want an error that names an address of each ensemble", addrs, err)
			}
		}
	}
	s.wantNoSessions(t)
	other.wantNoSessions(t)

	for _, addrs := range [][]string{{ours}, {ours, ours}, {ours, alias}, {ours, down}} {
		l, err := s.try(t, addrs, zkRoot)
		if err != nil {
			t.Errorf("New at %q = %v, want a Locker", addrs, err)
			continue
		}
		step.FreeWithin(t, 0, l, step.LockName(t))
		step.Close(t, l)
	}
	s.wantNoSessions(t)
}

// TestZkOneEnsembleOfLocalSessions is about servers that confirm sessions without the others. One that
// doesn't know a new chroot yet isn't taken for a server of another ensemble.
func TestZkOneEnsembleOfLocalSessions(t *testing.T) {
	itest.NeedServers(t)
	s := startZkDump(t, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
	for range 20 {
		l, err := s.try(t, s.Addrs(), "/"+step.LockName(t))
		if err != nil {
			t.Fatalf("New = %v, want a Locker", err)
		}
		step.Close(t, l)
	}
}

// try opens a Locker with a chroot.
func (s *Service) try(t *testing.T, addrs []string, root string) (locker.Locker, error) {
	t.Helper()
	opts := append([]zkbackend.Option{
		zkbackend.WithDialer(s.counter.dial), zkbackend.WithDigest(zkUser, zkPassword), zkbackend.WithChroot(root),
	}, s.options...)
	return zkbackend.New(t.Context(), addrs, opts...)
}

// startZkOfOne starts an ensemble of one server, which lists its sessions.
func startZkOfOne(t *testing.T) *Service {
	t.Helper()
	return itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*Service, error) {
		s, err := newZkEnsemble(ctx, image, 1, zkTick, "standaloneEnabled=false", "maxSessionTimeout=60000", "4lw.commands.whitelist=srvr,dump")
		if err != nil {
			return nil, err
		}
		s.options = append(s.options, zkbackend.WithTick(zkTick))
		return s, s.found(ctx)
	})
}
