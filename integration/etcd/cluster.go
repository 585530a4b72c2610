//go:build unix

package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// Service is a cluster, and the faults that can be made in it. The cluster requires passwords.
// Lockers have a user with exactly the permissions that the docs name. Each member publishes its
// port for clients; the members have a separate network between them.
type Service struct {
	image   string
	peers   *itest.Peers
	Members []*etcdMember
	Config  clientv3.Config // how a Locker's client reaches it
	URL     string          // the same for locker.Open
	sent    *sentCounter    // by the tests' own clients
	token   string          // with which it is founded; part of the cluster's id
}

// etcdMember is one process.
type etcdMember struct {
	*itest.Container
	number int
	Port   int
	admin  *clientv3.Client // the tests' own way to it alone
}

const (
	etcdMembers   = 3
	etcdHeartbeat = 100 * time.Millisecond
	etcdElection  = 5 * etcdHeartbeat // when a follower misses its leader
	TTL           = 3 * time.Second   // a busy machine needs a try or two to renew a lease
	etcdShortTTL  = 2 * time.Second   // the shortest that the backend takes; for tests that expect losses
	etcdPrefix    = "locker/"
	etcdUser      = "lock_user"

	// etcdTokenTTL is the time without a request after which the cluster forgets a client's login.
	etcdTokenTTL = 5 * time.Second
)

var Password = rand.Text() // of both users

// Start starts a cluster of three.
func Start(ctx context.Context, image string) (*Service, error) {
	ports, err := itest.FreePorts(etcdMembers)
	if err != nil {
		return nil, err
	}
	p, err := itest.NewPeers(ctx)
	if err != nil {
		return nil, err
	}
	s := &Service{image: image, peers: p, sent: new(sentCounter), token: p.ID}
	var hosts []string
	for i, port := range ports {
		s.Members = append(s.Members, &etcdMember{number: i, Port: port})
		hosts = append(hosts, itest.LocalAddr(port))
	}
	s.Config = clientv3.Config{Endpoints: hosts, Username: etcdUser, Password: Password, Logger: zap.NewNop()}
	u := url.URL{Scheme: "etcd", User: url.UserPassword(etcdUser, Password), Host: strings.Join(hosts, ","),
		RawQuery: "prefix=" + etcdPrefix + "&ttl=2m"} // so long that renewals don't disturb cases which count requests
	s.URL = u.String()
	return s, s.found(ctx)
}

// client makes a client for the tests. It returns when the client is connected and logged in.
func (s *Service) client(endpoints []string, user string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: user, Password: Password, Logger: zap.NewNop(), DialTimeout: time.Minute,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.sent.unary), grpc.WithChainStreamInterceptor(s.sent.stream)},
	})
}

// found starts all members, which form a new cluster, and creates its users.
func (s *Service) found(ctx context.Context) error {
	for _, m := range s.Members {
		c, err := itest.Start(ctx, itest.Spec{Image: s.image, Args: s.command(m), Ports: []int{m.Port}})
		if err != nil {
			return err
		}
		m.Container = c
		if err := s.peers.Join(ctx, c, m.number); err != nil {
			return err
		}
	}
	if err := s.logIn(ctx); err != nil {
		return err
	}
	return s.secure(ctx)
}

// logIn makes new clients for the tests after the cluster was replaced or set back. They need a new
// login: an old login refers to a state that the cluster doesn't have, and a member waits for that
// state without an answer.
func (s *Service) logIn(ctx context.Context) error {
	for _, m := range s.Members {
		if m.admin != nil {
			_ = m.admin.Close()
		}
		admin, err := s.client([]string{itest.LocalAddr(m.Port)}, "root")
		if err != nil {
			return err
		}
		m.admin = admin
	}
	return s.wait(ctx)
}

// command returns the command line of a member. Its files must survive a crash of the process, but
// not a crash of the machine.
func (s *Service) command(m *etcdMember) []string {
	peerURL := func(m *etcdMember) string { return "http://" + s.peers.Addr(m.number) + ":2380" }
	name := func(m *etcdMember) string { return fmt.Sprint("member", m.number) }
	var cluster []string
	for _, m := range s.Members {
		cluster = append(cluster, name(m)+"="+peerURL(m))
	}
	return []string{
		"etcd", "--name", name(m), "--data-dir", "/member", "--unsafe-no-fsync",
		"--listen-client-urls", fmt.Sprint("http://0.0.0.0:", m.Port), "--advertise-client-urls", "http://" + itest.LocalAddr(m.Port),
		"--listen-peer-urls", "http://0.0.0.0:2380", "--initial-advertise-peer-urls", peerURL(m),
		"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", s.token,
		"--heartbeat-interval", fmt.Sprint(etcdHeartbeat.Milliseconds()), "--election-timeout", fmt.Sprint(etcdElection.Milliseconds()),
		"--auth-token-ttl", fmt.Sprint(etcdTokenTTL.Seconds()), "--bcrypt-cost", "4",
		"--log-level", "error",
	}
}

// secure creates the users, and then enables authentication. Each step may be made again: the servers of a
// busy machine may elect another leader meanwhile.
func (s *Service) secure(ctx context.Context) error {
	admin := s.Members[0].admin
	end := clientv3.GetPrefixRangeEnd(etcdPrefix)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := admin.UserAdd(ctx, "root", Password); return err },
		func(ctx context.Context) error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := admin.UserAdd(ctx, etcdUser, Password); return err },
		func(ctx context.Context) error { _, err := admin.RoleAdd(ctx, etcdUser); return err },
		func(ctx context.Context) error {
			_, err := admin.RoleGrantPermission(ctx, etcdUser, etcdPrefix, end, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func(ctx context.Context) error { _, err := admin.UserGrantRole(ctx, etcdUser, etcdUser); return err },
		func(ctx context.Context) error { _, err := admin.AuthEnable(ctx); return err },
	} {
		if err := itest.Until(ctx, func(ctx context.Context) error { return unlessThere(step(ctx)) }); err != nil {
			return err
		}
	}
	return s.wait(ctx)
}

// unlessThere is err, or nil if what was to be created is there.
func unlessThere(err error) error {
	if errors.Is(err, rpctypes.ErrUserAlreadyExist) || errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return nil
	}
	return err
}

// wait returns when all members serve all requests, and have the same leader.
func (s *Service) wait(ctx context.Context) error { return itest.Until(ctx, s.ready) }

func (s *Service) ready(ctx context.Context) error {
	leader := uint64(0)
	for _, m := range s.Members {
		status, err := m.admin.Status(ctx, itest.LocalAddr(m.Port))
		if err != nil {
			return fmt.Errorf("member %d: status: %w", m.number, err)
		}
		if status.Leader == 0 || leader != 0 && status.Leader != leader {
			return fmt.Errorf("member %d follows %x, and another %x", m.number, status.Leader, leader)
		}
		leader = status.Leader
		if _, err := m.admin.Get(ctx, etcdPrefix, clientv3.WithCountOnly()); err != nil {
			return fmt.Errorf("member %d: get: %w", m.number, err)
		}
	}
	return nil
}

// leader returns the member that is the leader according to itself and to most members. Members
// that don't answer are left out.
func (s *Service) leader(ctx context.Context) (leader *etcdMember, err error) {
	err = itest.Until(ctx, func(ctx context.Context) error {
		follow, self := make(map[uint64]int), make(map[uint64]*etcdMember)
		var trouble error
		for _, m := range s.Members {
			limited, cancel := context.WithTimeout(ctx, etcdElection)
			status, err := m.admin.Status(limited, itest.LocalAddr(m.Port))
			cancel()
			if err != nil {
				trouble = errors.Join(trouble, err)
				continue
			}
			follow[status.Leader]++
			self[status.Header.MemberId] = m
		}
		for id, n := range follow {
			if leader = self[id]; id != 0 && leader != nil && n > etcdMembers/2 {
				return nil
			}
		}
		return errors.Join(trouble, fmt.Errorf("there is no leader"))
	})
	return leader, err
}

// successor returns the leader after former. The former leader stays the leader until the others
// notice that it is gone.
func (s *Service) successor(ctx context.Context, former *etcdMember) (next *etcdMember, err error) {
	err = itest.Until(ctx, func(ctx context.Context) error {
		if next, err = s.leader(ctx); err == nil && next == former {
			err = fmt.Errorf("member %d still leads", former.number)
		}
		return err
	})
	return next, err
}

// others returns all members except m.
func (s *Service) others(m *etcdMember) (others []*etcdMember) {
	for _, other := range s.Members {
		if other != m {
			others = append(others, other)
		}
	}
	return others
}
