package redlockbackend_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redlockbackend"
)

// fake is a server that answers scripts as a test says.
type fake struct {
	addr string

	mu    sync.Mutex
	says  map[string]func() string // its answer to a script; see silent, hangUp and text
	calls []call
	locks map[string]int // that scripts were about, by their names
	deaf  bool           // subscriptions aren't confirmed

	listeners map[net.Conn]string // channels, by connection
}

// call is one of a script, and the first of the locks that it is about.
type call struct {
	script, owner string
	token         locker.Token
	waits         bool // with a ticket, and a channel on which it listens
	ttl           time.Duration
}

const (
	hangUp = redistest.HangUp
	silent = redistest.Silence
)

// text is the answer of a script about one lock.
func text(s string) string { return "*1\r\n" + redistest.Bulk(s) }

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{says: make(map[string]func() string), locks: make(map[string]int), listeners: make(map[net.Conn]string)}
	f.answers("release", text("released"))
	f.addr = redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string { return f.reply(conn, command) })
	})
	return f
}

func (f *fake) reply(conn net.Conn, command []string) string {
	switch strings.ToLower(command[0]) {
	case "eval", "evalsha":
		return f.execute(command)
	case "subscribe":
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.deaf {
			return silent
		}
		f.listeners[conn] = command[1]
		return redistest.Confirm(command[1])
	}
	return redistest.Handshake(command)
}

func (f *fake) execute(command []string) string {
	name := nameOf(command[1])
	if strings.HasSuffix(name, "inspect") { // it has arguments of its own
		f.mu.Lock()
		say := f.says["inspect"]
		f.mu.Unlock()
		return say()
	}
	keys, _ := strconv.Atoi(command[2])
	args, locks := command[3+keys:], keys-1
	token, _ := strconv.ParseInt(args[4], 10, 64)
	f.mu.Lock()
	millis, _ := strconv.ParseInt(args[5], 10, 64)
	f.calls = append(f.calls, call{name, args[3], locker.Token(token), args[1] != "" && args[6] != "", time.Duration(millis) * time.Millisecond})
	f.locks[name] += locks
	say := f.says[strings.TrimPrefix(name, "whole ")]
	f.mu.Unlock()
	if say == nil {
		return silent
	}
	reply := say()
	if one, of := strings.CutPrefix(reply, "*1\r\n"); of {
		reply = fmt.Sprintf("*%d\r\n%s", locks, strings.Repeat(one, locks))
	}
	return reply
}

// nameOf is the name of the script that a command calls.
func nameOf(arg string) string {
	scripts := redlockbackend.Scripts()
	scripts["inspect"] = redlockbackend.InspectScript
	for name, script := range scripts {
		sum := sha1.Sum([]byte(script))
		switch arg {
		case script:
			return "whole " + name
		case hex.EncodeToString(sum[:]):
			return name
		}
	}
	return "unknown"
}

// publish sends a message to all that listen, and returns how many those are.
func (f *fake) publish(t *testing.T, payload string) int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, channel := range f.listeners {
		if _, err := io.WriteString(conn, redistest.Message(channel, payload)); err != nil {
			t.Error(err)
		}
	}
	return len(f.listeners)
}

// answers makes the fake give these replies to a script, and then the last one each time.
func (f *fake) answers(script string, replies ...string) {
	var mu sync.Mutex
	f.does(script, func() string {
		mu.Lock()
		defer mu.Unlock()
		reply := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return reply
	})
}

func (f *fake) does(script string, say func() string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says[script] = say
}

// asked is about how many locks a script was called.
func (f *fake) asked(script string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks[script]
}

// called is how often a script was called.
func (f *fake) called(script string) (n int) {
	for _, c := range f.list() {
		if c.script == script {
			n++
		}
	}
	return n
}

func (f *fake) list() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

const (
	longest = time.Minute
	ttl     = 20 * time.Second
)

// request asks for a lock with a TTL, and may wait.
func request(d time.Duration) locker.Request { return locker.Request{Name: "a", TTL: d} }
