package redisbackend_test

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// Each row is what a server answers, one after the other, and what must come of it: how often a
// request is sent, and whether Release then has anything to do.
func TestAcquireAndRelease(t *testing.T) {
	for _, c := range []struct {
		what     string
		replies  []string // to acquire; what follows is "gone"
		want     string   // of Acquire's error; "": granted
		calls    []string
		releases []string
	}{
		{"granted", []string{granted}, "", []string{"acquire"}, []string{"release"}},
		{"held", []string{held}, "lock is held", []string{"acquire"}, nil},
		{"buried", []string{gone}, "released already", []string{"acquire"}, nil},
		{"a server that doesn't know the script",
			[]string{noScript, granted}, "", []string{"acquire", "whole acquire"}, []string{"release"}},
		{"a script that is forgotten at once",
			[]string{noScript, noScript, granted}, "", []string{"acquire", "whole acquire", "whole acquire"}, []string{"release"}},
		{"refused for good", []string{"-OOM command not allowed when used memory > 'maxmemory'.\r\n"}, "OOM", []string{"acquire"}, nil},
		{"a replica that was a master", []string{"-READONLY You can't write against a read only replica.\r\n", granted},
			"", []string{"acquire", "acquire"}, []string{"release"}},
		{"a replica", []string{"-READONLY You can't write against a read only replica.\r\n"},
			"READONLY", []string{"acquire", "acquire", "acquire", "acquire"}, nil},
		{"a slot on the move", append(slices.Repeat([]string{"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"}, 6), granted),
			"", slices.Repeat([]string{"acquire"}, 7), []string{"release"}},
		{"a slot that has moved to a server that doesn't know the script",
			append(slices.Repeat([]string{"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"}, 6), noScript, granted),
			"", append(slices.Repeat([]string{"acquire"}, 7), "whole acquire"), []string{"release"}},
		{"failed in the middle", []string{"-ERR value is not an integer or out of range\r\n", gone}, "not an integer", []string{"acquire"}, []string{"release"}},
		{"an answer that makes no sense", []string{"*1\r\n:9\r\n", gone}, "answer of a script", []string{"acquire"}, []string{"release"}},

		// From here on a copy of the request may still arrive, though the server says what it says.
		{"a broken connection", []string{hangUp, granted}, "", []string{"acquire", "acquire"}, []string{"release late"}},
		{"a broken connection, then held", []string{hangUp, held}, "lock is held", []string{"acquire", "acquire"}, []string{"release late"}},
		{"a broken connection, then refused", []string{hangUp, "-OOM command not allowed\r\n", gone}, "OOM",
			[]string{"acquire", "acquire"}, []string{"release late"}},
		{"a broken connection, then buried", []string{hangUp, gone}, "released already", []string{"acquire", "acquire"}, []string{"release late"}},
		{"a server that hangs up each time", []string{hangUp, hangUp, hangUp, hangUp, gone}, "EOF",
			[]string{"acquire", "acquire", "acquire", "acquire"}, []string{"release late"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFake(t)
			for what, d := range map[string]driver.Driver{"a caller's client": f.driver(t, nil), "its own client": f.ownDriver(t)} {
				t.Run(what, func(t *testing.T) { acquireAndRelease(t, f, d, c.replies, c.want, c.calls, c.releases) })
			}
		})
	}
}

func acquireAndRelease(t *testing.T, f *fake, d driver.Driver, replies []string, want string, calls, releases []string) {
	t.Helper()
	f.answers(append(slices.Clone(replies), replies[len(replies)-1])...)
	var lost error
	l, err := d.Lock(locker.Request{Name: "a", TTL: time.Minute}, func(cause error) { lost = cause })
	if err != nil {
		t.Fatal(err)
	}
	before := driver.Stamp()
	grant, err := l.Acquire(t.Context())
	if taken := strings.Contains(want, "released"); taken != errors.Is(lost, locker.ErrLost) {
		t.Errorf("lost was called with %v, want ErrLost only if the lock was taken away", lost)
	}
	switch {
	case want == "" && (err != nil || grant.Token != 42 || grant.TTL != time.Minute || grant.Base < before || grant.Base > driver.Stamp()):
		t.Errorf("Acquire = %+v, %v, want a grant with token 42", grant, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Acquire = %+v, %v, want an error that speaks of %q", grant, err, want)
	case errors.Is(err, locker.ErrHeld) != strings.Contains(want, "held"):
		t.Errorf("Acquire = %v, and ErrHeld is for a lock that is held", err)
	}
	if got := f.called(); !slices.Equal(got, calls) {
		t.Errorf("Acquire sent %q, want %q", got, calls)
	}
	f.answers(gone)
	for range 2 { // the second has nothing to do
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	}
	if got := f.called(); !slices.Equal(got, releases) {
		t.Errorf("Release sent %q, want %q", got, releases)
	}
}

// go-redis makes types of its own of some refusals. None of them leaves anything to clean up.
func TestRefusals(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, nil)
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down",
		"NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is configured to save RDB snapshots", "BUSY Redis is busy running a script.",
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair", "NOPERM this user has no permissions",
		"ERR max number of clients reached", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1", "CROSSSLOT Keys in request don't hash to the same slot",
	} {
		f.answers("-" + text + "\r\n")
		l := newLock(t, d, time.Minute)
		if _, err := l.Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Acquire = %v, want %q", err, text)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		if got := f.called(); !slices.Equal(got, []string{"acquire"}) {
			t.Errorf("after %q was sent %q, want one request", text, got)
		}
	}
}

// A request is repeated by the driver alone, which remembers it, whatever the client's settings
// are.
func TestClientDoesNotRepeat(t *testing.T) {
	f := newFake(t)
	f.answers(silence)
	d := f.driver(t, func(o *redis.Options) {
		o.MaxRetries, o.ReadTimeout = 3, 20*time.Millisecond
	})
	l := newLock(t, d, time.Minute)
	if _, err := l.Acquire(t.Context()); err == nil {
		t.Errorf("Acquire = nil, and the server has not answered")
	}
	if got := f.called(); !slices.Equal(got, []string{"acquire"}) {
		t.Errorf("the client sent %q, want one request", got)
	}
	f.answers(gone)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := f.called(); !slices.Equal(got, []string{"release"}) {
		t.Errorf("Release sent %q, want %q", got, "release")
	}
}

func TestTTL(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	for ttl, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond:   10 * time.Millisecond,
		10*time.Millisecond + 1: 11 * time.Millisecond,
		time.Hour - 1:           time.Hour,
		1<<63 - 1:               0, // can't be rounded up
	} {
		l, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {})
		if want == 0 {
			if !errors.Is(err, locker.ErrOption) {
				t.Errorf("TTL %v: %v, want ErrOption", ttl, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if grant, err := l.Acquire(t.Context()); err != nil || grant.TTL != want {
			t.Errorf("TTL %v: %v is in force, %v, want %v", ttl, grant.TTL, err, want)
		}
	}
	for _, ttl := range []time.Duration{0, time.Millisecond, 10*time.Millisecond - 1} {
		if _, err := d.Lock(locker.Request{Name: "a", TTL: ttl}, func(error) {}); !errors.Is(err, locker.ErrOption) {
			t.Errorf("TTL %v: %v, want ErrOption", ttl, err)
		}
	}
}

// A client that was forgotten is an error, and no panic.
func TestNilClients(t *testing.T) {
	for _, c := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil), (*redis.AutoPipeliner)(nil)} {
		if l, err := redisbackend.New(t.Context(), c); l != nil || !errors.Is(err, locker.ErrOption) {
			t.Errorf("New with a %T that is nil = %v, %v, want ErrOption", c, l, err)
		}
	}
}

func TestClientsThatAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	auto, err := client.AsyncAutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []redis.UniversalClient{ring, auto, struct{ *redis.Ring }{ring}, struct{ *redis.AutoPipeliner }{auto}} {
		if _, err := redisbackend.New(t.Context(), c); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("New with a %T = %v, want ErrUnsupported", c, err)
		}
	}
}
