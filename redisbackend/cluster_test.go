package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/redisbackend"
)

// cluster makes a client for a Cluster, all of which is the fake.
func (f *fake) cluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	host, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.slots = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$1\r\nx\r\n", len(host), host, port)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// clusterDriver makes a driver with such a client.
func (f *fake) clusterDriver(t *testing.T) driver.Driver {
	t.Helper()
	d := redisbackend.NewDriver(f.cluster(t), false)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

// In a Cluster go-redis sends what a server has refused to another one, and when that one's
// connection breaks, some of the requests still have the error of the refusal. That doesn't say
// that they were not executed.
func TestRefusedThenBroken(t *testing.T) {
	f := newFake(t)
	client := f.cluster(t)
	var calls atomic.Int32
	f.does(func([]string) string {
		if calls.Add(1) <= 3 {
			return "-MOVED 1 " + f.addr + "\r\n"
		}
		return hangUp
	})
	errs := redisbackend.Exchange(t.Context(), client, 3)
	for i, err := range errs {
		if err == nil || redisconn.NotExecuted(err) {
			t.Errorf("request %d of a message that was sent: %v, want an error that leaves in doubt whether it was executed", i, err)
		}
	}
	if n := calls.Load(); n < 4 {
		t.Errorf("the server had %d requests, so this proves nothing", n)
	}

	f.answers("-MOVED 1 " + f.addr + "\r\n")
	for i, err := range redisbackend.Exchange(t.Context(), client, 3) {
		if err == nil || !redisconn.NotExecuted(err) || !strings.Contains(err.Error(), "MOVED") {
			t.Errorf("request %d: %v, want MOVED: it was refused each time", i, err)
		}
	}
	calls.Store(0)
	f.does(func([]string) string {
		if calls.Add(1) <= 3 {
			return "-MOVED 1 " + f.addr + "\r\n"
		}
		return granted
	})
	for i, err := range redisbackend.Exchange(t.Context(), client, 3) {
		if err != nil {
			t.Errorf("request %d: %v, want nil: it was executed in the end", i, err)
		}
	}
}

const tryAgain = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"

// What holds a lease, and ends it, asks for one key at a time: a slot on the move refuses scripts
// with several. Where a request that acquires may still arrive, the tombstone comes before the
// removal.
func TestClusterAsksForOneKey(t *testing.T) {
	const gone = ":0\r\n"
	for _, c := range []struct {
		what     string
		replies  []string // to acquire
		renewals bool
		releases []string
	}{
		{"granted", []string{granted}, true, []string{"release_one"}},
		{"held", []string{held}, false, nil},
		{"refused for good", []string{tryAgain}, false, nil}, // in three quarters of its time
		{"granted by the second copy", []string{hangUp, granted}, true, []string{"tombstone_one", "release_one"}},
		{"no answer", []string{""}, false, []string{"tombstone_one", "release_one"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFake(t)
			d := f.clusterDriver(t)
			ttl := 2 * time.Second // a busy machine answers within a quarter of it
			if c.replies[0] == "" {
				ttl = 200 * time.Millisecond
			}
			l := newLock(t, d, ttl)
			f.answers(append(c.replies, c.replies[len(c.replies)-1])...)
			_, _ = l.Acquire(t.Context())

			f.does(func(command []string) string {
				if command[2] != "1" {
					t.Errorf("%s has %s keys, want one", describe(command), command[2])
				}
				if strings.HasPrefix(describe(command), "renew") {
					return "$2\r\n42\r\n"
				}
				return gone
			})
			want := []string{"renew_one", "keep_one", "renew_one"} // the last token is kept for longer than until the second
			for range 2 {
				if !c.renewals {
					want = nil
					break
				}
				d.Renew(t.Context(), []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
					if err != nil {
						t.Errorf("Renew reports %v, want nil", err)
					}
				})
			}
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			if got, want := f.called(), append(want, c.releases...); !slices.Equal(got, want) {
				t.Errorf("sent was %q, want %q", got, want)
			}
		})
	}
}

// A server whose memory is full has no room for a tombstone. What frees a lock needs none, so it is sent
// all the same. Release reports that the tombstone is missing, and makes it when it is called again.
func TestClusterWithoutRoomForATombstone(t *testing.T) {
	const oom, loading = "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "-LOADING Redis is loading the dataset in memory\r\n"
	f := newFake(t)
	d := f.clusterDriver(t)
	l := newLock(t, d, time.Minute)
	f.answers(hangUp, granted)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	both := []string{"tombstone_one", "release_one"}
	for _, c := range []struct {
		tombstone, says string
		sent            []string
	}{{oom, "OOM", both}, {loading, "LOADING", both[:1]}, {":0\r\n", "", both}} {
		f.answers(c.tombstone, ":0\r\n")
		err := l.Release(t.Context())
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("the tombstone is answered %q, and Release = %v, want an error with %q", c.tombstone, err, c.says)
		}
		if got := f.called(); !slices.Equal(got, c.sent) {
			t.Errorf("the tombstone is answered %q, and sent was %q, want %q", c.tombstone, got, c.sent)
		}
	}

	now := bob
	now.AtOnce = true
	for _, c := range []struct {
		tombstone string
		want      error // whose text is in the error
		sent      int
	}{{oom, nil, 3}, {loading, errors.New("LOADING"), 2}} {
		f.answers(inspected("own 7", 5000, -1), c.tombstone, withBreach(3, "7"))
		_, err := d.(driver.Breaker).Break(t.Context(), "a", 7, now)
		if (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.want.Error()) {
			t.Errorf("the tombstone is answered %q, and Break = %v, want %v", c.tombstone, err, c.want)
		}
		if got := f.called(); len(got) != c.sent {
			t.Errorf("the tombstone is answered %q, and sent was %q, want %d requests", c.tombstone, got, c.sent)
		}
	}
}

// A renewal of the last token that fails costs no lease, and is made again with the next renewal.
func TestClusterKeepsTheLastToken(t *testing.T) {
	f := newFake(t)
	d := f.clusterDriver(t)
	l := newLock(t, d, time.Minute)
	f.answers(granted, "$2\r\n42\r\n", "-LOADING Redis is loading the dataset in memory\r\n", "$2\r\n42\r\n", ":0\r\n", ":0\r\n")
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		d.Renew(t.Context(), []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
			if (i < 2) != (err == nil) {
				t.Errorf("Renew reports %v", err)
			}
		})
	}
	if got, want := f.called(), []string{"acquire", "renew_one", "keep_one", "renew_one", "keep_one", "renew_one"}; !slices.Equal(got, want) {
		t.Errorf("sent was %q, want %q", got, want)
	}
	if err := l.Release(t.Context()); err != nil || len(f.called()) != 6 {
		t.Errorf("Release = %v after %q, want nothing to be sent: the lease was lost", err, f.called())
	}
}

// A waiter goes on waiting while the slot is on the move. One that asks for the first time gets an
// error that says nothing of a holder.
func TestClusterWaiterOutlastsMove(t *testing.T) {
	f := newFake(t)
	d := f.clusterDriver(t)
	const ttl = 2 * time.Second
	waiter, fresh := newLock(t, d, ttl), newLock(t, d, ttl)
	f.answers(held)
	if _, err := waiter.Acquire(t.Context()); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire = %v, want ErrHeld", err)
	}
	f.answers(tryAgain)
	var held *driver.HeldError
	if _, err := waiter.Acquire(t.Context()); !errors.As(err, &held) || held.AskWithin <= 0 {
		t.Errorf("Acquire of one that waits, in a slot on the move = %v, want HeldError with a time", err)
	}
	if n := len(f.called()); n > 4 {
		t.Errorf("one that waits, and will ask again soon, has sent %d requests, want 4", n)
	}
	if _, err := fresh.Acquire(t.Context()); err == nil || errors.Is(err, locker.ErrHeld) || !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("Acquire of one that is new, in a slot on the move = %v, want TRYAGAIN", err)
	}
	f.answers(granted)
	if grant, err := waiter.Acquire(t.Context()); err != nil || grant.Token != 42 {
		t.Errorf("Acquire after the move = %v, %v, want token 42", grant, err)
	}
}

// A slot on the move is what a caller hears of, and not that its time was up in the middle of the
// last request.
func TestClusterMoveIsNoTimeout(t *testing.T) {
	f := newFake(t)
	d := f.clusterDriver(t)
	const ttl = 2 * time.Second
	acquire := func() (l driver.Lock, err error) {
		l = newLock(t, d, ttl)
		began := time.Now()
		f.does(func([]string) string {
			if time.Since(began) > ttl*95/100 { // nobody should ask that late
				return silence
			}
			return tryAgain
		})
		_, err = l.Acquire(t.Context())
		return l, err
	}
	l, err := acquire()
	if !redisconn.Says(err, "TRYAGAIN") { // this process may have been slow
		l, err = acquire()
	}
	if !redisconn.Says(err, "TRYAGAIN") {
		t.Errorf("Acquire = %v after %d requests, want TRYAGAIN", err, len(f.called()))
	}
	f.answers(gone)
	if err := l.Release(t.Context()); err != nil || len(f.called()) > 0 {
		t.Errorf("Release = %v after %q, want nothing to be sent: all was refused", err, f.called())
	}
}
