//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// follower returns the node that accepts no writes.
func (s *Service) follower(ctx context.Context) (*pgNode, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		if n != leader {
			return n, nil
		}
	}
	return nil, errors.New("there is no replica")
}

// lag makes the replica miss everything that the primary writes from now on.
func (s *Service) lag(ctx context.Context) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	replica, err := s.follower(ctx)
	if err != nil {
		return err
	}
	// Nothing listens at this address. The replica tries again and again.
	if err := replica.exec(ctx, "alter system set primary_conninfo = 'host=127.0.0.1 port=1'"); err != nil {
		return err
	}
	if err := replica.exec(ctx, "select pg_reload_conf()"); err != nil {
		return err
	}
	return itest.Until(ctx, func(ctx context.Context) error {
		following, err := pgValue[int](ctx, leader, "select count(*) from pg_stat_replication")
		if err != nil || following != 0 {
			return errors.Join(err, fmt.Errorf("%d replicas follow", following))
		}
		return nil
	})
}

// promote makes the replica the primary, and returns when it accepts writes. The former primary
// isn't changed.
func (s *Service) promote(ctx context.Context, replica *pgNode) error {
	if err := replica.exec(ctx, "select pg_promote()"); err != nil {
		return err
	}
	return itest.Until(ctx, replica.primary)
}

// failover crashes the primary, and its replica takes over. The former primary becomes the replica.
func (s *Service) failover(ctx context.Context) error {
	former, err := s.crashPrimary(ctx)
	if err != nil {
		return err
	}
	return s.rejoin(ctx, former)
}

// crashPrimary returns when the replica has taken over.
func (s *Service) crashPrimary(ctx context.Context) (former *pgNode, err error) {
	replica, err := s.follower(ctx)
	if err != nil {
		return nil, err
	}
	if former, err = s.leader(ctx); err != nil {
		return nil, err
	}
	if _, err := images.Docker(ctx, "kill", former.ID); err != nil {
		return nil, err
	}
	return former, s.promote(ctx, replica)
}

// rejoin starts the former primary with a copy of the data of the present one.
func (s *Service) rejoin(ctx context.Context, former *pgNode) error {
	if _, err := images.Docker(ctx, "start", former.ID); err != nil {
		return err
	}
	return s.wait(ctx)
}
