package redisbackend_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// fake is a server that answers what a test says. It speaks enough of the protocol for a client to connect.
type fake struct {
	addr  string
	slots string // what it answers to CLUSTER SLOTS

	mu     sync.Mutex
	script func(command []string) string // what to reply; "" is silence, hangUp ends the connection
	calls  [][]string                    // of scripts, in order
}

const hangUp = "\x00"

// The answers of the scripts, as they come over the wire.
const (
	gone     = "*1\r\n:0\r\n"
	refused  = "*3\r\n:1\r\n:5\r\n:0\r\n"
	queued   = "*4\r\n:2\r\n:5\r\n:1\r\n:0\r\n"
	granted  = "*2\r\n:3\r\n$2\r\n42\r\n"
	granted2 = "*2\r\n:3\r\n$2\r\n43\r\n" // with another token
)

func newFake(t *testing.T) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: listener.Addr().String()}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		all.Wait()
	})
	return f
}

func (f *fake) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := f.reply(command)
		if reply == hangUp {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *fake) reply(command []string) string {
	switch strings.ToLower(command[0]) {
	case "eval", "evalsha":
		f.mu.Lock()
		f.calls = append(f.calls, command)
		script := f.script
		f.mu.Unlock()
		return script(command)
	case "hello":
		return "-ERR unknown command 'hello'\r\n" // an old one, which go-redis bears
	case "ping":
		return "+PONG\r\n"
	case "cluster":
		return f.slots
	}
	return "+OK\r\n"
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != kind {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}

// answers makes the fake give these replies to scripts, and then the last one again and again.
func (f *fake) answers(replies ...string) {
	var mu sync.Mutex
	f.does(func([]string) string {
		mu.Lock()
		defer mu.Unlock()
		reply := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return reply
	})
}

// does sets what the fake does with scripts, for several connections at a time.
func (f *fake) does(script func(command []string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.script = nil, script
}

// called returns the calls since answers, in words: which script, and whether its whole text was sent.
func (f *fake) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, c := range f.calls {
		list = append(list, describe(c))
	}
	return list
}

func describe(call []string) string {
	for name, text := range redisbackend.Scripts() {
		switch call[1] {
		case text:
			name = "whole " + name
		case digest(text):
		default:
			continue
		}
		if last := call[len(call)-1]; last != "" {
			name += " " + last
		}
		return name
	}
	return "unknown"
}

// driver makes a driver with a client of its own, whose requests to the fake are bounded by contexts.
func (f *fake) driver(t *testing.T, change func(*redis.Options)) driver.Driver {
	t.Helper()
	o := &redis.Options{Addr: f.addr, ContextTimeoutEnabled: true}
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	d := redisbackend.NewDriver(client, false)
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("the client's Close = %v", err)
		}
	})
	return d
}

func newLock(t *testing.T, d driver.Driver, ttl time.Duration) driver.Lock {
	t.Helper()
	l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(cause error) { t.Errorf("lost: %v", cause) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}
