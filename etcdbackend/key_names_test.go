package etcdbackend_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// However often a lock is taken, it leaves the same few keys in etcd's index. Locks of other names, and
// those that exist at the same time, have other keys.
func TestKeysAreUsedAgain(t *testing.T) {
	var s cluster
	d := s.start(t)
	first, g := acquire(t, d, "n", 10*time.Second)
	key := etcdbackend.KeyOf(first)
	for range 3 {
		release(t, first)
		last := g.Token
		if first, g = acquire(t, d, "n", 10*time.Second); etcdbackend.KeyOf(first) != key || g.Token <= last {
			t.Fatalf("the next key is %s with token %v, want %s again, with a token above %v", etcdbackend.KeyOf(first), g.Token, key, last)
		}
	}
	other, _ := acquire(t, d, "m", 10*time.Second)
	second := queue(t, d, "n")
	keys := []string{key, etcdbackend.KeyOf(other), etcdbackend.KeyOf(second)}
	if slices.Sort(keys); len(slices.Compact(keys)) != 3 {
		t.Errorf("three acquisitions at the same time have the keys %q, want three", keys)
	}
	release(t, first)
	if third := queue(t, d, "n"); etcdbackend.KeyOf(third) != key {
		t.Errorf("while another lock waits the next key is %s, want %s again", etcdbackend.KeyOf(third), key)
	}
	release(t, first) // once more
	if fourth := queue(t, d, "n"); etcdbackend.KeyOf(fourth) == key {
		t.Error("a lock that is released twice gives the key back twice")
	}
	never := prepare(t, d, "m", 10*time.Second)
	if err := never.Release(t.Context()); err != nil {
		t.Errorf("Release of an acquisition that was never asked for = %v", err)
	}
}

// A key isn't used again when a request that puts it may still be executed. When a removal fails, it may
// do so for long: no other name waits for that.
func TestKeysAreNotUsedAgain(t *testing.T) {
	for _, c := range []struct {
		why     string
		first   func(*pb.TxnRequest) bool // the first such request
		answers func(context.Context) (*pb.TxnResponse, error)
	}{
		{"a copy of the put is late", isPut, func(ctx context.Context) (*pb.TxnResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{
			"the delete is refused", func(r *pb.TxnRequest) bool { return !isPut(r) },
			func(context.Context) (*pb.TxnResponse, error) { return nil, rpctypes.ErrGRPCPermissionDenied },
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			var s cluster
			d := s.start(t)
			var failed atomic.Bool
			s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				if c.first(r) && failed.CompareAndSwap(false, true) {
					return c.answers(ctx)
				}
				return s.txn(r)
			}
			l, _ := acquire(t, d, "n", 2*time.Second)
			key := etcdbackend.KeyOf(l)
			if err := l.Release(t.Context()); err != nil {
				release(t, l)
			}
			if next, _ := acquire(t, d, "n", 2*time.Second); etcdbackend.KeyOf(next) == key {
				t.Errorf("the next acquisition has the key %s again", key)
			}
		})
	}
}

// A copy of a request to delete a key is executed when the next acquisition has it.
func TestLateDelete(t *testing.T) {
	var s cluster
	d := s.start(t)
	l, _ := acquire(t, d, "n", 10*time.Second)
	var deletes atomic.Pointer[pb.TxnRequest]
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if !isPut(r) {
			deletes.Store(r)
		}
		return s.txn(r)
	}
	release(t, l)
	next, _ := acquire(t, d, "n", 10*time.Second)
	if etcdbackend.KeyOf(next) != etcdbackend.KeyOf(l) {
		t.Fatal("the next acquisition has another key")
	}
	if _, err := s.txn(deletes.Load()); err != nil {
		t.Fatal(err)
	}
	if s.leaseOf(etcdbackend.KeyOf(next)) == 0 {
		t.Error("a late request to delete the key deletes it when the next acquisition has it")
	}
}

// The deletion of the key that an acquisition had before is reported late: before the put of the next
// one is answered, or after that.
func TestDeletionOfAnEarlierKey(t *testing.T) {
	for _, c := range []struct {
		why      string
		deleted  int64 // relative to the revision of the put
		answered bool
		lost     bool
	}{
		{"the one before, while the put is under way", -1, false, false},
		{"its own, while the put is under way", +1, false, true},
		{"the one before, after the put", -1, true, false},
		{"its own, after the put", +1, true, true},
	} {
		var s cluster
		d := s.start(t)
		holder, _ := acquire(t, d, "n", 10*time.Second)
		l := prepare(t, d, "n", 10*time.Second)
		s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
			resp, err := s.txn(r)
			if isPut(r) && !c.answered {
				etcdbackend.Deleted(l, putKey(r), resp.Header.Revision+c.deleted)
			}
			return resp, err
		}
		_, err := l.Acquire(t.Context())
		if c.answered {
			etcdbackend.Deleted(l, etcdbackend.KeyOf(l), s.latest()+c.deleted)
		}
		release(t, holder)
		etcdbackend.Deleted(l, etcdbackend.KeyOf(holder), s.latest())
		if errors.Is(err, driver.ErrQueued) {
			_, err = l.Acquire(t.Context())
		}
		if c.lost != errors.Is(err, locker.ErrLost) || !c.lost && err != nil {
			t.Errorf("%s: Acquire = %v, want lost %v", c.why, err, c.lost)
		}
	}
}

// The key of the next acquisition exists, and no request for it was late: a copy of this process has put
// it, or it has come back with a backup of the cluster. It isn't taken for the acquisition's own, which
// would get a token that somebody else has.
func TestKeyThatExists(t *testing.T) {
	for _, revision := range []int64{0, 1000} { // relative to what it was
		var s cluster
		d := s.start(t)
		l, _ := acquire(t, d, "n", 10*time.Second)
		key := etcdbackend.KeyOf(l)
		other := *s.get(key)
		other.CreateRevision += revision
		release(t, l)
		s.mu.Lock()
		s.revision += revision
		s.keys[key] = &other
		s.mu.Unlock()
		waiter := queue(t, d, "n")
		if etcdbackend.KeyOf(waiter) == key {
			t.Error("an acquisition waits with the key that exists")
		}
		if tried, err := d.Lock(locker.Request{Name: "n", TTL: 10 * time.Second, NoWait: true}, func(error) {}); err != nil {
			t.Fatal(err)
		} else if g, err := tried.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire without waiting = %+v, %v, want ErrHeld", g, err)
		}
		release(t, waiter)
		if s.leaseOf(key) == 0 {
			t.Error("Release has deleted the key of somebody else")
		}
	}
}

// The client panics when the answer to the put has come.
func TestPanicAfterThePut(t *testing.T) {
	var s cluster
	var panics atomic.Bool
	d := drive(t, clientv3.Config{Endpoints: []string{s.member(t)}, DialOptions: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, req, reply, c, opts...)
			if r, ok := req.(*pb.TxnRequest); ok && isPut(r) && panics.CompareAndSwap(true, false) {
				panic("a defect of the client")
			}
			return err
		}),
	}})
	panics.Store(true)
	l := prepare(t, d, "n", 10*time.Second)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic doesn't reach the caller")
			}
		}()
		_, _ = l.Acquire(t.Context())
	}()
	key := etcdbackend.KeyOf(l)
	release(t, l)
	if s.leaseOf(key) != 0 {
		t.Error("after Release the key exists")
	}
	if next, _ := acquire(t, d, "n", 10*time.Second); etcdbackend.KeyOf(next) == key {
		t.Error("the next acquisition has the same key again")
	}
}

// The cluster was set back, and gives revisions again that were tokens of the same key. So no acquisition
// uses a key of before.
func TestKeysAfterASetBack(t *testing.T) {
	var s cluster
	d := s.start(t)
	var before string
	for range 5 {
		l, _ := acquire(t, d, "n", 10*time.Second)
		before = etcdbackend.KeyOf(l)
		release(t, l)
	}
	s.mu.Lock()
	s.revision = 100
	s.mu.Unlock()
	l, _ := acquire(t, d, "n", 10*time.Second)
	if etcdbackend.KeyOf(l) == before {
		t.Error("the next acquisition has the same key again")
	}
	if keys := s.keyNames(); len(keys) != 1 || keys[0] != etcdbackend.KeyOf(l) {
		t.Errorf("the keys %q exist, want only %s", keys, etcdbackend.KeyOf(l))
	}
}

// A watch of a held key begins again at a member that is behind, and reports what happened to the key of an
// earlier acquisition.
func TestHeldKeyOfAnEarlierAcquisition(t *testing.T) {
	for _, own := range []int64{0, 1} {
		var s cluster
		d := s.start(t)
		var lost []error
		l, err := d.Lock(locker.Request{Name: "n", TTL: 10 * time.Second}, func(err error) { lost = append(lost, err) })
		if err != nil {
			t.Fatal(err)
		}
		g, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		etcdbackend.HeldEvents(l, int64(g.Token)-1+2*own, int64(g.Token)-1+own)
		if want := 2 * int(own); len(lost) != want {
			t.Errorf("the lease is lost with %v, want %d reports", lost, want)
		}
	}
}

// The first put is not answered, and then the key exists. If a late copy has put it, it is the acquisition's
// own. If somebody else has put it, it stays.
func TestKeyThatExistsAfterALatePut(t *testing.T) {
	stranger := func([]byte) []byte { return []byte("1795221171926 another") }
	twin := func(value []byte) []byte { // of a virtual machine that was cloned
		label, _, _ := bytes.Cut(value, []byte("\n"))
		return append(label, "\n0123456789abcdef0123456789abcdef"...)
	}
	for _, c := range []struct {
		why   string
		late  bool                      // the first put is not answered; otherwise something between repeats it
		other func(value []byte) []byte // somebody else has put the key, with this value in place of its own
	}{
		{"a copy is late", true, nil},
		{"a proxy repeats it", false, nil},
		{"a stranger has put it, and a copy is late", true, stranger},
		{"a twin has put it, and a copy is late", true, twin},
		{"a twin has put it", false, twin},
	} {
		t.Run(c.why, func(t *testing.T) {
			var s cluster
			d := s.start(t)
			l, err := d.Lock(locker.Request{Name: "n", TTL: 2 * time.Second, Holder: "h"}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			var first atomic.Pointer[pb.TxnRequest]
			s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				if !isPut(r) || !first.CompareAndSwap(nil, r) {
					return s.txn(r)
				}
				resp, err := s.txn(r)
				if c.other != nil {
					s.mu.Lock()
					kv := s.keys[putKey(r)]
					kv.Value = c.other(kv.Value)
					s.mu.Unlock()
				}
				if c.late {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				if err == nil {
					resp, err = s.txn(r)
				}
				return resp, err
			}
			_, err = l.Acquire(t.Context())
			if !errors.Is(err, driver.ErrQueued) { // the keys before it are still to be read
				t.Fatalf("Acquire = %v, want a place in the queue", err)
			}
			if c.other == nil {
				if _, err := l.Acquire(t.Context()); err != nil {
					t.Errorf("Acquire = %v, want the lock", err)
				}
			}
			key := putKey(first.Load())
			if own := etcdbackend.KeyOf(l) == key; own == (c.other != nil) {
				t.Errorf("the acquisition has the key that existed: %v", own)
			}
			release(t, l)
			if still := s.leaseOf(key) != 0; still != (c.other != nil) {
				t.Errorf("after Release the key exists: %v", still)
			}
		})
	}
}

// A renewal notices that the key before its own is gone, also when another acquisition has put it again.
func TestRenewalAfterAMissedDeletion(t *testing.T) {
	var s cluster
	d := s.start(t)
	holder, _ := acquire(t, d, "n", 10*time.Second)
	l := queue(t, d, "n")
	release(t, holder)
	if behind := queue(t, d, "n"); etcdbackend.KeyOf(behind) != etcdbackend.KeyOf(holder) {
		t.Fatal("the next acquisition has another key")
	}
	if errs := renew(t, d, l); errs[0] != nil {
		t.Fatalf("Renew = %v", errs[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx); err != nil {
		t.Errorf("Acquire = %v, want the lock: no key is before its own", err)
	}
}

// isPut reports whether a request puts the key of an acquisition, and reads those before it.
func isPut(r *pb.TxnRequest) bool {
	return len(r.Success) == 2 && r.Success[0].GetRequestPut() != nil
}

func putKey(r *pb.TxnRequest) string { return string(r.Success[0].GetRequestPut().Key) }

func release(t *testing.T, l driver.Lock) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Fatalf("Release = %v", err)
	}
}

// queue returns a lock that waits.
func queue(t *testing.T, d driver.Driver, name string) driver.Lock {
	t.Helper()
	l := prepare(t, d, name, 10*time.Second)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want a place in the queue", err)
	}
	return l
}
