//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence/fenceetcd"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The shape in which Jepsen tests the locks of etcd: several clients add elements to a set, by
// reading it and writing it back under a lock. Now and then one is paused between the two for
// longer than its TTL, together with its network, until another has added elements; then it goes on
// without a look at its lease. An element is lost that was acknowledged and isn't in the set in the
// end.
type setSize struct {
	sets   int
	adds   int // by each client, without a pause
	pauses int // of each of those that are paused
}

var (
	shortSets = setSize{sets: 1, adds: 20, pauses: 3}
	longSets  = setSize{sets: 4, adds: 220, pauses: 60} // below LOCKER_SOAK, and once for each run of the tests
)

const (
	setClients = 5
	setPaused  = 2 // clients that are paused now and then
	setOthers  = 2 // writes by others that a pause lasts for
)

var longSetsRan sync.Once

// TestEtcdSets loses elements without a fence, or it would prove nothing, and none with one.
func TestEtcdSets(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := clusters(t).Take(t)
	size := shortSets
	if os.Getenv("LOCKER_SOAK") != "" {
		longSetsRan.Do(func() { size = longSets })
	}
	var all sync.WaitGroup // side by side, because most of a set is waiting for the lease of a client that is paused
	tests := make(map[string][]*setTest)
	for _, w := range setWriters {
		for range size.sets {
			test := s.newSet(t, w, size)
			tests[w.name] = append(tests[w.name], test)
			all.Go(test.run)
		}
	}
	all.Wait()
	for _, w := range setWriters {
		t.Run(w.name, func(t *testing.T) {
			sum := &setTest{}
			for _, test := range tests[w.name] {
				sum.add(test)
			}
			t.Logf("%d clients were paused; %d elements were acknowledged, %d writes refused, %d elements lost; %d acquisitions failed",
				sum.paused, sum.acknowledged, sum.refused, sum.lost, sum.failures.Load())
			switch {
			case len(sum.errs) > 0:
				t.Errorf("%v", errors.Join(sum.errs...))
			case w.loses && sum.lost == 0:
				t.Errorf("no element was lost without a fence: this proves nothing")
			case !w.loses && sum.lost > 0:
				t.Errorf("%d elements were lost, though writes are fenced", sum.lost)
			case !w.loses && sum.refused < sum.paused:
				t.Errorf("%d writes were refused, and %d clients were paused", sum.refused, sum.paused)
			}
		})
	}
}

// setTest is one set and its clients.
type setTest struct {
	writer  setWriter
	size    setSize
	data    *clientv3.Client
	name    string
	mark    fenceetcd.Mark
	clients []*setClient

	mu                                  sync.Mutex
	elements                            []string // acknowledged
	written                             chan struct{}
	paused, acknowledged, refused, lost int
	errs                                []error
	failures                            atomic.Int64 // of Acquire
}

type setClient struct {
	locker  locker.Locker
	network *proxy.Network
	number  int
}

func (s *Service) newSet(t *testing.T, w setWriter, size setSize) *setTest {
	data, err := s.client(s.Config.Endpoints, "root")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = data.Close() })
	test := &setTest{writer: w, size: size, data: data, name: step.LockName(t), written: make(chan struct{})}
	test.mark = fenceetcd.Mark{KV: data, Key: "mark/" + test.name}
	for i := range setClients {
		l, network := s.proxied(t)
		test.clients = append(test.clients, &setClient{step.CloseAtEnd(t, l), network, i})
	}
	return test
}

// run has the clients add elements, and looks what is in the set in the end.
func (test *setTest) run() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*step.Limit)
	defer cancel()
	var all sync.WaitGroup
	n := test.size.adds + test.size.pauses
	every := n / test.size.pauses
	for _, c := range test.clients {
		all.Go(func() {
			for i := range n {
				pause := c.number < setPaused && i%every == 0 && i/every < test.size.pauses
				if err := test.section(ctx, c, fmt.Sprint(c.number, ".", i), pause); err != nil {
					test.failed(err)
					return
				}
			}
		})
	}
	all.Wait()
	got, err := test.read(ctx)
	if err != nil {
		test.failed(err)
	}
	for _, element := range test.elements {
		if !slices.Contains(got, element) {
			test.lost++
		}
	}
	test.acknowledged = len(test.elements)
}

func (test *setTest) failed(err error) {
	test.mu.Lock()
	defer test.mu.Unlock()
	test.errs = append(test.errs, err)
}

func (test *setTest) add(other *setTest) {
	test.paused += other.paused
	test.acknowledged += other.acknowledged
	test.refused += other.refused
	test.lost += other.lost
	test.errs = append(test.errs, other.errs...)
	test.failures.Add(other.failures.Load())
}

func (test *setTest) read(ctx context.Context) ([]string, error) {
	got, err := test.data.Get(ctx, "set/"+test.name)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	return strings.Fields(string(got.Kvs[0].Value)), nil
}

// section adds one element. A pause begins after the read.
func (test *setTest) section(ctx context.Context, c *setClient, element string, pause bool) error {
	lease, err := c.locker.Acquire(ctx, test.name, locker.WithTTL(etcdShortTTL))
	for tries := 1; err != nil && tries < 20; tries++ { // a cluster may be without a leader for longer than such a TTL, on a busy machine
		test.failures.Add(1)
		lease, err = c.locker.Acquire(ctx, test.name, locker.WithTTL(etcdShortTTL))
	}
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }()
	if err := test.writer.begin(ctx, lease, test.mark); err != nil {
		return test.outcome(element, err)
	}
	elements, err := test.read(ctx)
	if err != nil {
		return err
	}
	if pause {
		if err := test.pause(ctx, c); err != nil {
			return err
		}
	}
	put := clientv3.OpPut("set/"+test.name, strings.Join(append(elements, element), " "))
	return test.outcome(element, test.writer.write(ctx, test.data, lease, test.mark, put))
}

func (test *setTest) outcome(element string, err error) error {
	test.mu.Lock()
	defer test.mu.Unlock()
	switch {
	case err == nil:
		test.elements = append(test.elements, element)
		close(test.written)
		test.written = make(chan struct{})
	case errors.Is(err, errFenced):
		test.refused++
		err = nil
	}
	return err
}

// pause stops this writer, with all its network traffic, until others have written or no other
// writer is left.
func (test *setTest) pause(ctx context.Context, c *setClient) error {
	c.network.Cut()
	defer c.network.Heal()
	for i := range setOthers {
		test.mu.Lock()
		written := test.written
		test.paused += 1 - min(i, 1)
		test.mu.Unlock()
		select {
		case <-written:
		case <-time.After(step.Limit):
			return errors.New("nobody has written while a client was paused")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
