//go:build unix

package integration

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
)

// docker has the engine do something to members, to all if none is named.
func (s *etcdService) docker(ctx context.Context, verb string, members ...*etcdMember) error {
	args := []string{verb}
	if len(members) == 0 {
		members = s.members
	}
	for _, m := range members {
		args = append(args, m.id)
	}
	_, err := images.Docker(ctx, args...)
	return err
}

// cut isolates a member from the others; its clients reach it as before.
func (s *etcdService) cut(ctx context.Context, m *etcdMember) error {
	return s.peers.cut(ctx, m.container)
}

// join ends that.
func (s *etcdService) join(ctx context.Context, m *etcdMember) error {
	return s.peers.join(ctx, m.container, m.number)
}

// starve gives a member a hundredth of a processor.
func (s *etcdService) starve(ctx context.Context, m *etcdMember) error {
	_, err := images.Docker(ctx, "update", "--cpu-period", "100000", "--cpu-quota", "1000", m.id)
	return err
}

// feed ends that.
func (s *etcdService) feed(ctx context.Context, m *etcdMember) error {
	_, err := images.Docker(ctx, "update", "--cpu-quota", "-1", m.id)
	return err
}

func (s *etcdService) pause(t conformance.T) {
	must(t, func(ctx context.Context) error { return s.docker(ctx, "pause") })
}

func (s *etcdService) resume(t conformance.T) {
	must(t, func(ctx context.Context) error { return s.docker(ctx, "unpause") })
}

func (s *etcdService) down(t conformance.T) {
	must(t, func(ctx context.Context) error { return s.docker(ctx, "kill") })
}

func (s *etcdService) up(t conformance.T) {
	must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start"), s.wait(ctx)) })
}

// restart is a crash of all members, and a start on what they have written.
func (s *etcdService) restart(t conformance.T) {
	s.down(t)
	s.up(t)
}

// wipe founds a new cluster in the place of the old one.
func (s *etcdService) wipe(t conformance.T) {
	must(t, func(ctx context.Context) error {
		var ids []string
		for _, m := range s.members {
			ids = append(ids, m.id)
		}
		if _, err := images.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...); err != nil {
			return err
		}
		return s.found(ctx)
	})
}

// failover is a crash of the leader. It is started again when another leads.
func (s *etcdService) failover(t conformance.T) {
	must(t, func(ctx context.Context) error {
		former, err := s.leader(ctx)
		if err != nil {
			return err
		}
		if err := s.docker(ctx, "kill", former); err != nil {
			return err
		}
		if _, err := s.successor(ctx, former); err != nil {
			return err
		}
		return errors.Join(s.docker(ctx, "start", former), s.wait(ctx))
	})
}
