package redisconn_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

func ask(ctx context.Context, c *redisconn.Conn) (any, error) {
	cmd := redisconn.NewCommand(ctx, "evalsha", "x", 0)
	if err := c.Send(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// A call returns when its context is over, whatever the client minds.
func TestCallReturnsInTime(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		c := connect(t, bounded, func([]string) string { return redistest.Silence })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		begin := time.Now()
		_, err := ask(ctx, c)
		cancel()
		if took := time.Since(begin); err == nil || took > 4*time.Second { // a timeout of go-redis is five
			t.Errorf("bounded by contexts %v: %v after %v, want an error after 50ms", bounded, err, took)
		}
		if _, err := ask(ctx, c); !errors.Is(err, kit.ErrNotSent) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that is over: %v, want ErrNotSent, and no context error", err)
		}
	}
}

// Close ends a wait that nothing else would end soon.
func TestCloseEndsCalls(t *testing.T) {
	asked := make(chan struct{}, 1)
	c := connect(t, false, func([]string) string {
		asked <- struct{}{}
		return redistest.Silence
	})
	go func() {
		<-asked
		c.Close()
	}()
	if _, err := ask(t.Context(), c); !errors.Is(err, kit.ErrClosing) || !c.Closed() {
		t.Errorf("a call during Close = %v, want ErrClosing", err)
	}
}

// The client in these tests has retries, and a Command must be sent once all the same.
func TestCommandIsSentOnce(t *testing.T) {
	var n atomic.Int32
	c := connect(t, true, func([]string) string {
		n.Add(1)
		return redistest.HangUp
	})
	if _, err := ask(t.Context(), c); !redisconn.Broken(err) || n.Load() != 1 {
		t.Errorf("%v after %d requests, want a broken connection after one", err, n.Load())
	}
}

// What was answered in a pipeline stays answered when the connection breaks after that.
func TestAnsweredInPipeline(t *testing.T) {
	var n atomic.Int32
	c := connect(t, true, func([]string) string {
		if n.Add(1) == 1 {
			return ":7\r\n"
		}
		return redistest.HangUp
	})
	one, two := redisconn.NewCommand(t.Context(), "evalsha", "x", 0), redisconn.NewCommand(t.Context(), "evalsha", "x", 0)
	if err := c.Send(t.Context(), one, two); err != nil {
		t.Fatal(err)
	}
	if got, err := one.Result(); err != nil || got != int64(7) {
		t.Errorf("the first result is %v, %v, want 7", got, err)
	}
	if got, err := two.Result(); !redisconn.Broken(err) {
		t.Errorf("the second result is %v, %v, want a broken connection", got, err)
	}
}

func TestLoadScript(t *testing.T) {
	files := fstest.MapFS{
		"a.lua": {Data: []byte("-- include b.lua\nreturn 1\n")},
		"b.lua": {Data: []byte("local b\n-- include c.lua\n")},
		"c.lua": {Data: []byte("local c\n")},
	}
	s := redisconn.LoadScript(files, "a.lua")
	if want := "local b\nlocal c\n\n\nreturn 1\n"; s.Text != want {
		t.Errorf("the text is %q, want %q", s.Text, want)
	}
	for _, whole := range []bool{true, false} {
		words, want := s.Begin([]any{1}, whole), "evalsha"
		if whole {
			want = "eval"
		}
		if text := words[2] == s.Text; len(words) != 3 || words[0] != 1 || words[1] != want || text != whole {
			t.Errorf("whole %v: the words are %v", whole, words)
		}
	}
}

func TestAddressOf(t *testing.T) {
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: "sesame"})
	defer one.Close()
	behind := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer behind.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	defer cluster.Close()
	for _, c := range []struct {
		client    redis.UniversalClient
		want      string
		sentinels bool
	}{
		{one, "127.0.0.1:1", false},
		{behind, "the master behind the Sentinels", true},
		{cluster, "the Cluster of 127.0.0.1:1, 127.0.0.1:2", false},
	} {
		if got := redisconn.AddressOf(c.client); got != c.want || redisconn.UsesSentinels(c.client) != c.sentinels {
			t.Errorf("AddressOf = %q, want %q; UsesSentinels = %v, want %v", got, c.want, !c.sentinels, c.sentinels)
		}
	}
}

func TestTimeoutsNameTheServer(t *testing.T) {
	c := connect(t, true, func([]string) string { return redistest.Silence })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := ask(ctx, c)
	addr := redisconn.AddressOf(c.Client)
	for range 2 { // the name is added once
		if err = c.NameServer(t.Context(), err, "key"); err == nil || strings.Count(err.Error(), addr) != 1 {
			t.Errorf("the error is %v, want %s in it once", err, addr)
		}
	}
	if err := c.NameServer(t.Context(), nil, "key"); err != nil {
		t.Errorf("NameServer(nil) = %v, want nil", err)
	}
}
