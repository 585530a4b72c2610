package zkbackend_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// What can't work is refused before anything is sent, and the error says what is wanted.
func TestOptionsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		says   string
		option zkbackend.Option
	}{
		{"tick: want at least 10ms, for example", zkbackend.WithTick(-time.Second)},
		{"tick: want at least 10ms, for example", zkbackend.WithTick(1)},
		{"tick: want at least 10ms, for example", zkbackend.WithTick(2 * time.Microsecond)},
		{"tick: want at least 10ms, for example", zkbackend.WithTick(10*time.Millisecond - 1)},
		{"TTL: want more than zero, for example", zkbackend.WithDefaultTTL(-1)},
		{"dialer: want a function, for example", zkbackend.WithDialer(nil)},
		{"ACL: want at least one entry, for example", zkbackend.WithACL(nil)},
		{"ACL: want at least one entry, for example", zkbackend.WithACL([]zk.ACL{})},
	} {
		dial := func(context.Context, string, string) (net.Conn, error) {
			t.Errorf("%s: a server was dialled", c.says)
			return nil, errors.New("refused")
		}
		l, err := zkbackend.New(t.Context(), []string{"zk"}, zkbackend.WithDialer(dial), c.option)
		if !errors.Is(err, locker.ErrOption) || !contains(err, c.says) {
			t.Errorf("New = %v, %v, want ErrOption that says %q", l, err, c.says)
		}
	}
	if l, err := locker.Open(t.Context(), "zk://127.0.0.1:1?tick=9ms"); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Open with a tick of 9ms = %v, %v, want ErrOption", l, err)
	}
}

// The shortest tick works.
func TestShortestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		release(t, acquire(t, open(t, s, zkbackend.WithTick(10*time.Millisecond)), "a"))
	})
}
