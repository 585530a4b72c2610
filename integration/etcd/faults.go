//go:build unix

package etcd

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// docker runs a command of the Docker engine on members, on all members if none is named.
func (s *Service) docker(ctx context.Context, verb string, members ...*etcdMember) error {
	args := []string{verb}
	if len(members) == 0 {
		members = s.Members
	}
	for _, m := range members {
		args = append(args, m.ID)
	}
	_, err := images.Docker(ctx, args...)
	return err
}

// cut isolates a member from the others; its clients reach it as before.
func (s *Service) cut(ctx context.Context, m *etcdMember) error {
	return s.peers.Cut(ctx, m.Container)
}

// join ends that.
func (s *Service) join(ctx context.Context, m *etcdMember) error {
	return s.peers.Join(ctx, m.Container, m.number)
}

// starve limits a member to a hundredth of a processor.
func (s *Service) starve(ctx context.Context, m *etcdMember) error {
	_, err := images.Docker(ctx, "update", "--cpu-period", "100000", "--cpu-quota", "1000", m.ID)
	return err
}

// feed ends that.
func (s *Service) feed(ctx context.Context, m *etcdMember) error {
	_, err := images.Docker(ctx, "update", "--cpu-quota", "-1", m.ID)
	return err
}

func (s *Service) pause(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "pause") })
}

func (s *Service) resume(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "unpause") })
}

func (s *Service) down(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill") })
}

func (s *Service) up(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start"), s.wait(ctx)) })
}

// restart crashes all members, and starts them with the data that they have written.
func (s *Service) restart(t conformance.T) {
	s.down(t)
	s.up(t)
}

// wipe replaces the cluster with a new one.
func (s *Service) wipe(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error {
		var ids []string
		for _, m := range s.Members {
			ids = append(ids, m.ID)
		}
		if _, err := images.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...); err != nil {
			return err
		}
		return s.found(ctx)
	})
}

// failover crashes the leader. The former leader is started again when another member leads.
func (s *Service) failover(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error {
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
