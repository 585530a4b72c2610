package redisbackend_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// waiting makes a lock of a driver that has no subscription yet and is refused a place in the queue, and
// a function that asks for it. The server gives a place to who can be notified.
func waiting(t *testing.T, f *fake) (ask func() error) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: f.addr, ContextTimeoutEnabled: true})
	d := closedAtEnd(t, redisbackend.NewDriver(client, true), client)
	f.does(func(command []string) string {
		switch {
		case strings.HasPrefix(describe(command), "release"):
			return gone
		case command[11] == "": // it doesn't listen
			return "*3\r\n:1\r\n:60000\r\n:0\r\n"
		}
		return queued
	})
	l := newLock(t, d, time.Minute)
	t.Cleanup(func() {
		if err := l.Release(context.Background()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	})
	return func() error {
		_, err := l.Acquire(t.Context())
		return err
	}
}

// The first wait of a Locker begins before it has a subscription, so it has no place in the queue. It gets
// one as soon as the subscription is confirmed.
func TestWaiterQueuesWhenItIsSubscribed(t *testing.T) {
	f := newFake(t)
	confirmed := make(chan struct{})
	confirm := sync.OnceFunc(func() { close(confirmed) })
	f.subscribing = func() string { <-confirmed; return "" }
	ask := waiting(t, f)
	defer confirm()
	var polls *driver.HeldError
	if err := ask(); !errors.As(err, &polls) || polls.AskWhen == nil || polls.Why != nil {
		t.Fatalf("the first Acquire = %v, want HeldError, to ask again when it is subscribed", err)
	}
	select {
	case <-polls.AskWhen:
		t.Fatal("it is to ask again, and the subscription isn't confirmed")
	case <-time.After(50 * time.Millisecond):
	}
	confirm()
	select {
	case <-polls.AskWhen:
	case <-time.After(10 * time.Second):
		t.Fatal("the subscription is confirmed, and the waiter doesn't know it")
	}
	if err := ask(); !errors.Is(err, driver.ErrQueued) {
		t.Errorf("Acquire when the subscription is confirmed = %v, want a place in the queue", err)
	}
}

// A waiter that can't subscribe says why, if that isn't over in a moment.
func TestWaiterSaysWhyItIsNotSubscribed(t *testing.T) {
	f := newFake(t)
	f.subscribing = func() string {
		return "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n"
	}
	ask := waiting(t, f)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var polls *driver.HeldError
		if err := ask(); !errors.As(err, &polls) {
			t.Fatalf("Acquire = %v, want HeldError", err)
		}
		took := time.Since(began)
		switch {
		case polls.Why == nil && took < 10*time.Second:
			continue
		case polls.Why == nil:
			t.Fatalf("it doesn't say for %v why it has no place", took)
		case took < time.Second:
			t.Errorf("it says %q after %v, want it to wait for some time", polls.Why, took)
		}
		for _, part := range []string{"no place in the queue", "NOPERM", "a permission is missing", "&locker:grants:*"} {
			if !strings.Contains(polls.Why.Error(), part) {
				t.Errorf("it says %q, want that it contains %q", polls.Why, part)
			}
		}
		return
	}
}
