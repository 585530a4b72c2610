//go:build unix

package zk

import (
	"context"
	"errors"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// docker runs a command of the Docker engine on servers, on all servers if none is named.
func (s *Service) docker(ctx context.Context, verb string, servers ...*zkServer) error {
	args := []string{verb}
	if len(servers) == 0 {
		servers = s.Servers
	}
	for _, server := range servers {
		args = append(args, server.ID)
	}
	_, err := images.Docker(ctx, args...)
	return err
}

// cut isolates a server from the others; its clients reach it as before.
func (s *Service) cut(ctx context.Context, server *zkServer) error {
	return s.peers.Cut(ctx, server.Container)
}

// join ends that.
func (s *Service) join(ctx context.Context, server *zkServer) error {
	return s.peers.Join(ctx, server.Container, server.number)
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

// restart crashes all servers, and starts them with the data that they have written.
func (s *Service) restart(t conformance.T) {
	s.down(t)
	s.up(t)
}

// wipe replaces the ensemble with one that has no data.
func (s *Service) wipe(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error {
		remove := []string{"rm", "--force", "--volumes"}
		for _, server := range s.Servers {
			remove = append(remove, server.ID)
		}
		if _, err := images.Docker(ctx, remove...); err != nil {
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
		if _, err := s.leader(ctx, former); err != nil {
			return err
		}
		return errors.Join(s.docker(ctx, "start", former), s.wait(ctx))
	})
}
