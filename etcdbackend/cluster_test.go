package etcdbackend_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// cluster is a member that executes the Txns of this package, and keeps etcd leases, which don't
// expire. It is disturbed by hooks, which are called without the mutex.
type cluster struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer

	onTxn    func(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) // nil: txn
	onRevoke func()
	auth     pb.AuthServer
	list     pb.ClusterServer
	left     func(granted int64) int64 // what this member answers to a keepalive; nil: as granted
	ttlOf    func(asked int64) int64   // what this member answers to a Grant; nil: as asked

	mu       sync.Mutex
	id       uint64 // of the cluster; 0: 1
	term     uint64
	revision int64
	keys     map[string]*mvccpb.KeyValue
	leases   map[int64]bool
	visited  int             // keys that ranges have looked at
	looked   int             // requests for the time to live of an etcd lease
	asked    []int64         // the TTLs of all Grants
	least    map[int64]int64 // the TTL of each that every member has at least: the one that was asked for
}

// start returns a driver whose only member c is.
func (c *cluster) start(t *testing.T) driver.Driver {
	return drive(t, clientv3.Config{Endpoints: []string{c.member(t)}})
}

// member starts one more member of c, and returns its address.
func (c *cluster) member(t *testing.T, opts ...grpc.ServerOption) string {
	if c.keys == nil {
		c.found(5)
	}
	l := listen(t)
	c.serve(t, l, opts...)
	return l.Addr().String()
}

// found makes it a cluster without data.
func (c *cluster) found(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term, c.revision, c.keys, c.leases, c.least = term, 100, make(map[string]*mvccpb.KeyValue), make(map[int64]bool), make(map[int64]int64)
}

// latest is the revision of the cluster.
func (c *cluster) latest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

func (c *cluster) serve(t *testing.T, l net.Listener, opts ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(opts...)
	pb.RegisterKVServer(server, c)
	pb.RegisterLeaseServer(server, c)
	if c.auth != nil {
		pb.RegisterAuthServer(server, c.auth)
	}
	if c.list != nil {
		pb.RegisterClusterServer(server, c.list)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return server
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// together runs cases at the same time: most of what they do is to wait. t.Parallel would run no
// more than the machine has cores.
func together[C any](t *testing.T, cases []C, name func(C) string, run func(*testing.T, C)) {
	var all sync.WaitGroup
	for _, c := range cases {
		all.Go(func() { t.Run(name(c), func(t *testing.T) { run(t, c) }) })
	}
	all.Wait()
}

// orAgain makes a test once more if it fails: this process may have been so slow that a time limit had passed.
func orAgain(t *testing.T, test func() error) {
	t.Helper()
	err := test()
	if err != nil {
		t.Logf("%v; once more", err)
		err = test()
	}
	if err != nil {
		t.Error(err)
	}
}

func drive(t *testing.T, c clientv3.Config) driver.Driver {
	t.Helper()
	c.Logger = zap.NewNop()
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d := etcdbackend.NewDriver(client)
	t.Cleanup(func() {
		_ = d.Close(context.Background())
		_ = client.Close()
	})
	return d
}

// acquire returns a lock that was granted.
func acquire(t *testing.T, d driver.Driver, name string, ttl time.Duration) (driver.Lock, driver.Grant) {
	t.Helper()
	l := prepare(t, d, name, ttl)
	g, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	return l, g
}

func prepare(t *testing.T, d driver.Driver, name string, ttl time.Duration) driver.Lock {
	t.Helper()
	l, err := d.Lock(locker.Request{Name: name, TTL: ttl}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var errUnreported = errors.New("nothing was reported")

// renew renews locks once.
func renew(t *testing.T, d driver.Driver, locks ...driver.Lock) []error {
	errs := slices.Repeat([]error{errUnreported}, len(locks))
	d.Renew(t.Context(), locks, func(i int, _ driver.Instant, err error) { errs[i] = err })
	return errs
}

// keyNames returns the names of the keys that exist.
func (c *cluster) keyNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.keys))
}

// leaseOf is the etcd lease that a key is attached to; 0: there is no such key.
func (c *cluster) leaseOf(key string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(key).Lease
}

// get is empty for a key that doesn't exist.
func (c *cluster) get(key string) *mvccpb.KeyValue {
	if kv := c.keys[key]; kv != nil {
		return kv
	}
	return &mvccpb.KeyValue{}
}

func (c *cluster) delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	delete(c.keys, key)
}

// elect begins a new term.
func (c *cluster) elect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term++
}

func (c *cluster) newestTerm() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}
