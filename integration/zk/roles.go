//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// wait returns when all servers serve all requests, and have the same leader.
func (s *Service) wait(ctx context.Context) error { return itest.Until(ctx, s.ready) }

func (s *Service) ready(ctx context.Context) error {
	leaders := 0
	for _, server := range s.Servers {
		mode, err := server.mode(ctx)
		if err != nil {
			return err
		}
		if mode == "leader" {
			leaders++
		} else if mode != "follower" {
			return fmt.Errorf("server %d is a %q", server.number, mode)
		}
	}
	if leaders != 1 {
		return fmt.Errorf("there are %d leaders", leaders)
	}
	_, err := s.admin.Sync("/")
	return err
}

// mode returns the server's own role, leader or follower. Without a quorum it is neither.
func (server *zkServer) mode(ctx context.Context) (string, error) {
	text, err := server.answer(ctx, "srvr")
	return infoFieldsOf(text)["Mode"], err
}

// answer returns the answer to one of ZooKeeper's commands of four letters.
func (server *zkServer) answer(ctx context.Context, command string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", itest.LocalAddr(server.Port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if limit, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(limit)
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

func infoFieldsOf(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			fields[name] = value
		}
	}
	return fields
}

// leader returns the server that reports to be the leader, except the servers in but. A leader that
// is cut off still reports that for a while, alongside the real leader.
func (s *Service) leader(ctx context.Context, but ...*zkServer) (leader *zkServer, err error) {
	err = itest.Until(ctx, func(ctx context.Context) error {
		for _, server := range s.Servers {
			if slices.Contains(but, server) {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, s.tick)
			mode, err := server.mode(limited)
			cancel()
			if err == nil && mode == "leader" {
				leader = server
				return nil
			}
		}
		return errors.New("there is no leader")
	})
	return leader, err
}

// others returns all servers except one.
func (s *Service) others(server *zkServer) (others []*zkServer) {
	for _, other := range s.Servers {
		if other != server {
			others = append(others, other)
		}
	}
	return others
}
