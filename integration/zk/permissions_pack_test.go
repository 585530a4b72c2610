//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func (s *Service) permissions(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name)
	stranger, err := connectZk(s.Addrs(), net.DialTimeout)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer stranger.Close()
	current := func(ctx context.Context) error { // its server may not have the latest write of the holder's server
		return s.ask(ctx, func() error { _, err := stranger.Sync("/"); return err })
	}
	itest.Must(t, func(ctx context.Context) error {
		paths, err := s.queue(ctx, name)
		if err = errors.Join(err, current(ctx)); err != nil {
			return err
		}
		for what, f := range map[string]func() error{
			"lists the nodes":      func() error { _, _, err := stranger.Children(zkDir(name)); return err },
			"reads the holder's":   func() error { _, _, err := stranger.Get(paths[0]); return err },
			"deletes the holder's": func() error { return stranger.Delete(paths[0], -1) },
			"makes one": func() error {
				_, err := stranger.Create(zkDir(name)+"/x", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				return err
			},
		} {
			if err := s.ask(ctx, f); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("a stranger %s: %v, want ErrNoAuth", what, err)
			}
		}
		return nil
	})
	step.WantLive(t, lease, step.CloseAtEnd(t, s.Open(t)))
	step.Release(t, lease)

	// With an ACL of one's own everybody may read.
	public := "/" + step.LockName(t)
	open := step.CloseAtEnd(t, itest.OpenURL(t, s.at(public)+"&acl=auth::cdrwa,world:anyone:r"))
	lease = step.Acquire(t, open, name)
	itest.Must(t, current)
	itest.Must(t, func(ctx context.Context) error {
		return s.ask(ctx, func() error {
			names, _, err := stranger.Children(public + "/" + name)
			if err == nil && len(names) != 1 {
				err = fmt.Errorf("there are %q, want one", names)
			}
			return err
		})
	})
	step.Release(t, lease)
}
