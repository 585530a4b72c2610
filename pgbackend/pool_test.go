package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A fifth TTL takes the place of those that aren't in use any more.

// A caller that is about to use the connection of a TTL when that is retired gets another one.
func TestTTLEvictedDuringAnAcquisition(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	for i := range 3 { // there is room for one of the two others
		if _, err := locker.TryAcquire(t.Context(), l, fmt.Sprint("held", i), locker.WithTTL(time.Duration(10+i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				for {
					lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint("a", i), locker.WithTTL(time.Duration(20+i)*time.Second))
					if err != nil && strings.Contains(err.Error(), "there are at most 4") {
						continue
					}
					if err == nil {
						time.Sleep(100 * time.Microsecond)
						err = lease.Err()
						_ = lease.Release(t.Context())
					}
					if err != nil {
						t.Errorf("the connection was ended under an acquisition: %v", err)
					}
					return
				}
			})
		}
		all.Wait()
	}
	const most = 4 // a shared connection for each TTL that may be in use; nobody would find another one, nor end it
	for end := time.Now().Add(10 * time.Second); len(f.connections()) > most; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections stand, want %d at most", len(f.connections()), most)
		}
	}
}

// A waiter's connection that is made for a TTL whose time is over is not in the way of connections of
// others.
func TestTTLEvictedBeforeItsWaiterHasConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		var held atomic.Bool
		connect, dial := make(chan struct{}), config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if held.Load() {
				<-connect
			}
			return dial(ctx, network, addr)
		}
		l, err := pgbackend.New(t.Context(), config, pgbackend.WithWaiterConnections(1))
		if err != nil {
			t.Fatal(err)
		}
		hold := func(name string, ttl time.Duration) {
			if _, err := locker.TryAcquire(t.Context(), l, name, locker.WithTTL(ttl)); err != nil {
				t.Fatal(err)
			}
		}
		const late, next = 12 * time.Second, 13 * time.Second
		hold("b", 10*time.Second)
		hold("c", 11*time.Second)
		if lease, err := locker.TryAcquire(t.Context(), l, "d", locker.WithTTL(late)); err != nil || lease.Release(t.Context()) != nil {
			t.Fatal(err)
		}
		held.Store(true)
		f.somebodyHas("a")
		ctx, giveUp := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "a", locker.WithTTL(late))
			gone <- err
		}()
		synctest.Wait() // its connection is under way
		held.Store(false)
		hold("e", next) // in the place of that TTL
		giveUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire that was given up = %v, want Canceled", err)
		}
		close(connect)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "a", locker.WithTTL(next)); err != nil { // the fake grants it to those who wait, not to those who poll
			t.Errorf("Acquire = %v, want a lease: it has no connection to wait on", err)
		}
		_ = l.Close()
	})
}
