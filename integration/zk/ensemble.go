//go:build unix

package zk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// Service is an ensemble, and the faults that can be made in it. Each server publishes its port for
// clients; the servers have a separate network between them.
type Service struct {
	image   string
	tick    time.Duration
	config  []string          // lines of the configuration, in addition to the ones of all ensembles
	files   map[string]string // of each server
	flags   []string          // of the JVM, in addition to the ones of all ensembles
	peers   *itest.Peers
	Servers []*zkServer
	URL     string             // for locker.Open
	options []zkbackend.Option // the options of URL, for zkbackend.New
	admin   *zk.Conn
	counter *zkCounter
	roots   map[string]bool // of Lockers with a prefix
}

// zkServer is one server process.
type zkServer struct {
	*itest.Container
	number int
	Port   int
	secure int // the port for TLS; 0: none
}

const (
	zkServers = 3 // in most ensembles
	zkTick    = 500 * time.Millisecond
	TTL       = 2 * time.Second // an answer may take 333 ms; a busy machine needs a try or two
	zkRoot    = "/locker"
	zkUser    = "lock_user"
)

var zkPassword = rand.Text()

// startZk starts an ensemble that allows long sessions with a short tick. A Locker can't guess this
// tick, so the URL contains it. Empty nodes of locks are removed every second; the default is every
// minute. The servers wait for each other as long as with the default tick. Otherwise a busy
// machine could cause an election that no case has made.
func startZk(ctx context.Context, image string) (*Service, error) {
	return StartFor(ctx, image, time.Minute)
}

// StartFor starts an ensemble for sessions of up to longest.
func StartFor(ctx context.Context, image string, longest time.Duration) (*Service, error) {
	s, err := startZkEnsemble(ctx, image, zkTick, fmt.Sprint("maxSessionTimeout=", longest.Milliseconds()), "initLimit=20", "syncLimit=8")
	if err == nil {
		s.URL += "?tick=" + zkTick.String()
		s.options = append(s.options, zkbackend.WithTick(zkTick))
	}
	return s, err
}

// startZkEnsemble starts an ensemble of three.
func startZkEnsemble(ctx context.Context, image string, tick time.Duration, config ...string) (*Service, error) {
	s, err := newZkEnsemble(ctx, image, zkServers, tick, config...)
	if err != nil {
		return nil, err
	}
	return s, s.found(ctx)
}

// newZkEnsemble returns an ensemble of n servers that is not started yet.
func newZkEnsemble(ctx context.Context, image string, n int, tick time.Duration, config ...string) (*Service, error) {
	ports, err := itest.FreePorts(n)
	if err != nil {
		return nil, err
	}
	p, err := itest.NewPeers(ctx)
	if err != nil {
		return nil, err
	}
	s := &Service{image: image, tick: tick, config: config, peers: p, counter: new(zkCounter), roots: make(map[string]bool)}
	for i, port := range ports {
		s.Servers = append(s.Servers, &zkServer{number: i, Port: port})
	}
	u := url.URL{Scheme: "zk", User: url.UserPassword(zkUser, zkPassword), Host: strings.Join(s.Addrs(), ","), Path: zkRoot}
	s.URL = u.String()
	return s, nil
}

// found starts servers without data, and creates the root node of the Lockers.
func (s *Service) found(ctx context.Context) (err error) {
	for _, server := range s.Servers {
		ports := []int{server.Port}
		if server.secure != 0 {
			ports = append(ports, server.secure)
		}
		server.Container, err = itest.Start(ctx, itest.Spec{Image: s.image, Args: s.command(server), Files: s.files, Ports: ports})
		if err != nil {
			return err
		}
		if err := s.join(ctx, server); err != nil {
			return err
		}
	}
	if s.admin != nil {
		s.admin.Close() // it has seen more than these servers know
	}
	if s.admin, err = connectZk(s.Addrs(), net.DialTimeout); err != nil {
		return err
	}
	if err := s.ask(ctx, func() error { return s.admin.AddAuth("digest", []byte(zkUser+":"+zkPassword)) }); err != nil {
		return err
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.ask(ctx, func() error {
		_, err := s.admin.Create(zkRoot, nil, zk.FlagPersistent, zk.DigestACL(zk.PermAll, zkUser, zkPassword))
		if errors.Is(err, zk.ErrNodeExists) {
			err = nil
		}
		return err
	})
}

// connectZk returns a client for the tests.
func connectZk(addrs []string, dial zk.Dialer) (*zk.Conn, error) {
	conn, _, err := zk.Connect(addrs, 20*time.Second, zk.WithLogger(zkSilence{}), zk.WithDialer(dial))
	return conn, err
}

type zkSilence struct{}

func (zkSilence) Printf(string, ...any) {}

// command returns the command line of a server. Its files must survive a crash of the process, but
// not a crash of the machine.
func (s *Service) command(server *zkServer) []string {
	var servers []string
	for _, other := range s.Servers {
		servers = append(servers, fmt.Sprintf("server.%d=%s:2888:3888;%d", other.number+1, s.peers.Addr(other.number), other.Port))
	}
	config := append([]string{"quorumListenOnAllIPs=true", "forceSync=no"}, s.config...)
	if server.secure != 0 {
		config = append(config, fmt.Sprint("secureClientPort=", server.secure))
	}
	return []string{
		"env",
		fmt.Sprint("ZOO_MY_ID=", server.number+1),
		"ZOO_SERVERS=" + strings.Join(servers, " "),
		fmt.Sprint("ZOO_TICK_TIME=", s.tick.Milliseconds()),
		"ZOO_MAX_CLIENT_CNXNS=0",
		"ZOO_ADMINSERVER_ENABLED=false",
		"ZOO_CFG_EXTRA=" + strings.Join(config, " "),
		"ZK_SERVER_HEAP=128",
		strings.Join(append([]string{"JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dznode.container.checkIntervalMs=1000"}, s.flags...), " "),
		"/docker-entrypoint.sh", "zkServer.sh", "start-foreground",
	}
}

func (s *Service) Addrs() (addrs []string) {
	for _, server := range s.Servers {
		addrs = append(addrs, itest.LocalAddr(server.Port))
	}
	return addrs
}

// ask repeats f when a connection has ended, because tests end many connections.
func (s *Service) ask(ctx context.Context, f func() error) error {
	broken := []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved}
	var err error
	again := itest.Until(ctx, func(context.Context) error {
		if err = f(); slices.ContainsFunc(broken, func(b error) bool { return errors.Is(err, b) }) {
			return err
		}
		return nil
	})
	return errors.Join(again, err)
}
