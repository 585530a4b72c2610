package redisbackend_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redisbackend"
)

// fake is a server that answers scripts as a test says.
type fake struct {
	addr  string
	slots string // what it answers to CLUSTER SLOTS

	mu     sync.Mutex
	script func(command []string) string // its answer, which may be redistest.Silence or redistest.HangUp
	calls  [][]string                    // of scripts, in order

	subscribing func() string       // what it answers to SUBSCRIBE; nil, or "": the confirmation
	listeners   map[net.Conn]string // channels, by connection
}

const (
	silence = redistest.Silence
	hangUp  = redistest.HangUp
)

// The answers of the scripts, as they come over the wire.
const (
	gone     = "*1\r\n:0\r\n"
	held     = "*3\r\n:1\r\n:5\r\n:0\r\n"
	queued   = "*4\r\n:2\r\n:5\r\n:1\r\n:0\r\n"
	granted  = "*2\r\n:3\r\n$2\r\n42\r\n"
	granted2 = "*2\r\n:3\r\n$2\r\n43\r\n" // with another token
)

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{listeners: make(map[net.Conn]string)}
	f.addr = redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string { return f.reply(conn, command) })
	})
	return f
}

func (f *fake) reply(conn net.Conn, command []string) string {
	switch strings.ToLower(command[0]) {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "scan":
		f.mu.Lock()
		f.calls = append(f.calls, command)
		script := f.script
		f.mu.Unlock()
		return script(command)
	case "cluster":
		return f.slots
	case "subscribe":
		if f.subscribing != nil {
			if answer := f.subscribing(); answer != "" {
				return answer
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listeners[conn] = command[1]
		return redistest.Confirm(command[1])
	}
	return redistest.Handshake(command)
}

// publish sends a message to all that have subscribed.
func (f *fake) publish(t *testing.T, text string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, channel := range f.listeners {
		if _, err := io.WriteString(conn, redistest.Message(channel, text)); err != nil {
			t.Error(err)
		}
	}
}

// answers makes the fake give these replies to scripts, and then the last one each time.
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

// called returns the calls since answers, in words: which script, and whether its whole text was
// sent.
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
		selecting := redisbackend.Selecting(text)
		switch call[1] {
		case text, selecting:
			name = "whole " + name
		case digest(text), digest(selecting):
		default:
			continue
		}
		if call[1] == selecting || call[1] == digest(selecting) {
			call = call[:len(call)-1] // the database
		}
		if last := call[len(call)-1]; last != "" {
			name += " " + last
		}
		return name
	}
	return "unknown"
}

// driver makes a driver with a client of its own, whose requests to the fake are bounded by
// contexts.
func (f *fake) driver(t *testing.T, change func(*redis.Options)) driver.Driver {
	t.Helper()
	o := &redis.Options{Addr: f.addr, ContextTimeoutEnabled: true}
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	return closedAtEnd(t, redisbackend.NewDriver(client, false), client)
}

// ownDriver makes a driver as a URL does, which obeys contexts.
func (f *fake) ownDriver(t *testing.T) driver.Driver {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: f.addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	return closedAtEnd(t, redisbackend.NewOwnDriver(client), client)
}

func closedAtEnd(t *testing.T, d driver.Driver, client *redis.Client) driver.Driver {
	t.Helper()
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
