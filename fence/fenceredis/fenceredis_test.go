package fenceredis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
)

// unreachable makes a client that fails the test when it dials.
func unreachable(t *testing.T) *redis.Options {
	return &redis.Options{Addr: "redis.invalid:1", MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Errorf("a connection was wanted")
		return nil, io.ErrClosedPipe
	}}
}

// wrapped are clients that don't show what they are. The first hides all but the methods that a
// mark needs.
type (
	wrapped         struct{ redis.Scripter }
	wrappedPipeline struct{ redis.Pipeliner }
	wrappedRing     struct{ *redis.Ring }
)

// A client that queues answers nil for any token, and what follows in its pipeline is executed. A
// Ring has the data elsewhere.
func TestClientsThatAreRefused(t *testing.T) {
	client := redis.NewClient(unreachable(t))
	defer client.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis.invalid:1"}, Dialer: client.Options().Dialer})
	defer cluster.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "redis.invalid:1"}, Dialer: client.Options().Dialer})
	defer ring.Close()
	auto, err := client.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]redis.Scripter{
		"Pipeline":           client.Pipeline(),
		"TxPipeline":         client.TxPipeline(),
		"Cluster Pipeline":   cluster.Pipeline(),
		"Cluster TxPipeline": cluster.TxPipeline(),
		"Ring Pipeline":      ring.Pipeline(),
		"Ring":               ring,
		"AutoPipeliner":      auto,
		"wrapped Pipeline":   wrappedPipeline{client.Pipeline()},
		"hidden Pipeline":    wrapped{client.Pipeline()},
		"wrapped Ring":       wrappedRing{ring},
	} {
		mark := fenceredis.Mark{Client: c, Key: "{a}:fence"}
		script := fenceredis.NewScript("return 1")
		for call, do := range map[string]func() (any, error){
			"Claim": func() (any, error) { return nil, mark.Claim(t.Context(), 5) },
			"Do":    func() (any, error) { return mark.Do(t.Context(), 5, "SET", "{a}", "x") },
			"Run":   func() (any, error) { return mark.Run(t.Context(), 5, script, []string{"{a}"}) },
		} {
			if got, err := do(); !errors.Is(err, errors.ErrUnsupported) || got != nil {
				t.Errorf("%s through %s = %v, %v, want ErrUnsupported", call, what, got, err)
			}
		}
		if p, ok := c.(redis.Pipeliner); ok && p.Len() > 0 {
			t.Errorf("%s: %d commands are queued, want none", what, p.Len())
		}
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	client := redis.NewClient(unreachable(t))
	defer client.Close()
	ctx, script := t.Context(), fenceredis.NewScript("return 1")
	mark := fenceredis.Mark{Client: client, Key: "a:fence"}
	for what, do := range map[string]func() (any, error){
		"the mark's own key":          func() (any, error) { return mark.Do(ctx, 5, "DEL", "a:fence") },
		"the mark's own key in Run":   func() (any, error) { return mark.Run(ctx, 5, script, []string{"a", "a:fence"}) },
		"more arguments than Lua has": func() (any, error) { return mark.Do(ctx, 5, "RPUSH", "a", make([]any, 7001)...) },
		"no key":                      func() (any, error) { return fenceredis.Mark{Client: client}.Do(ctx, 5, "DEL", "a") },
		"no client":                   func() (any, error) { return fenceredis.Mark{Key: "a:fence"}.Do(ctx, 5, "DEL", "a") },
		"a client that is nil": func() (any, error) {
			return fenceredis.Mark{Client: (*redis.Client)(nil), Key: "a:fence"}.Do(ctx, 5, "DEL", "a")
		},
		"a client that is nil, in Claim": func() (any, error) {
			return nil, fenceredis.Mark{Client: (*redis.ClusterClient)(nil), Key: "a:fence"}.Claim(ctx, 5)
		},
		"no script":                    func() (any, error) { return mark.Run(ctx, 5, nil, []string{"a"}) },
		"a script of nothing":          func() (any, error) { return mark.Run(ctx, 5, new(fenceredis.Script), []string{"a"}) },
		"a token that is none":         func() (any, error) { return mark.Do(ctx, 0, "DEL", "a") },
		"a token that is none, in Run": func() (any, error) { return mark.Run(ctx, -1, script, nil) },
	} {
		if got, err := do(); err == nil || got != nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: %v, %v, want an error that is not ErrStale", what, got, err)
		}
	}
}

// hangsUp is a server that counts scripts and ends the connection instead of answering them.
func hangsUp(t *testing.T) (addr string, scripts func() []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					switch word := strings.ToLower(strings.TrimSpace(line)); {
					case err != nil:
						return
					case word == "hello", word == "client": // an old server, which refuses both
						_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
					case word == "evalsha", word == "eval":
						mu.Lock()
						seen = append(seen, word)
						mu.Unlock()
						return
					}
				}
			})
		}
	})
	return listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// A command whose reply is lost may have been executed, so it is not sent again. A claim is.
func TestSentOnce(t *testing.T) {
	addr, scripts := hangsUp(t)
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 3})
	defer client.Close()
	mark := fenceredis.Mark{Client: client, Key: "a:fence"}
	script := fenceredis.NewScript("return 1")
	for what, do := range map[string]func() (any, error){
		"Do":  func() (any, error) { return mark.Do(t.Context(), 5, "INCRBY", "a", 100) },
		"Run": func() (any, error) { return mark.Run(t.Context(), 5, script, []string{"a"}) },
	} {
		before := len(scripts())
		if got, err := do(); err == nil || errors.Is(err, fence.ErrStale) || !errors.Is(err, io.EOF) {
			t.Errorf("%s = %v, %v, want EOF", what, got, err)
		}
		if n := len(scripts()) - before; n != 1 {
			t.Errorf("%s was sent %d times, want once", what, n)
		}
	}
	before := len(scripts())
	if err := mark.Claim(t.Context(), 5); err == nil {
		t.Errorf("Claim = nil, and the server has not answered")
	}
	if n := len(scripts()) - before; n != 4 {
		t.Errorf("Claim was sent %d times, want 4 with 3 retries", n)
	}
}
