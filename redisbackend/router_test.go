package redisbackend_test

import (
	"context"
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
	l := newLock(t, d, time.Minute)
	before := driver.Stamp()
	grant, err := l.Acquire(t.Context())
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

// The caller's context bounds nothing in go-redis unless ContextTimeoutEnabled is set. The driver's calls return
// all the same.
func TestCallsReturnInTime(t *testing.T) {
	with := func(change func(*redis.Options)) func(*fake, *testing.T) driver.Driver {
		return func(f *fake, t *testing.T) driver.Driver { return f.driver(t, change) }
	}
	for what, open := range map[string]func(*fake, *testing.T) driver.Driver{
		"its own client":               (*fake).ownDriver,
		"a client that minds contexts": with(nil),
		"a client that doesn't":        with(func(o *redis.Options) { o.ContextTimeoutEnabled = false }),
		"a client that would wait forever": with(func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout = false, -1, -1
		}),
	} {
		t.Run(what, func(t *testing.T) {
			f := newFake(t)
			f.answers(silence)
			d := open(f, t)
			const ttl, slack = 200 * time.Millisecond, 2 * time.Second
			l := newLock(t, d, ttl)
			begin := time.Now()
			_, err := l.Acquire(t.Context())
			if took := time.Since(begin); took > ttl+slack {
				t.Errorf("Acquire returned after %v, and nothing is left of the lease after %v", took, ttl)
			}
			if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire = %v, want an error of the service", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			begin = time.Now()
			d.Renew(ctx, []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
				if err == nil || errors.Is(err, locker.ErrLost) {
					t.Errorf("Renew reports %v, want an error that is not ErrLost", err)
				}
			})
			err = l.Release(ctx)
			if took := time.Since(begin); took > slack {
				t.Errorf("Renew and Release returned after %v, with a context of 100ms", took)
			}
			if err == nil {
				t.Errorf("Release = nil, and the server has not answered")
			}
			f.answers(gone)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
		})
	}
}

// A message that is not answered must not keep the others in this process from the server.
func TestCancelledCallerCostsNoOther(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLock(t, d, time.Minute)
	if _, err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a context that is over = %v, want context.Canceled", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("nothing was asked, and sent was %q", got)
	}
}

func TestRenewIsOneMessage(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	var locks []driver.Lock
	for range 1000 {
		locks = append(locks, newLock(t, d, time.Minute))
	}
	seen := make([]int, len(locks))
	before := driver.Stamp()
	d.Renew(t.Context(), locks, func(i int, base driver.Instant, err error) {
		seen[i]++
		if err != nil || base < before || base > driver.Stamp() {
			t.Errorf("lock %d: %v, %v, want a new base", i, base, err)
		}
	})
	if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
		t.Errorf("some of %d locks were not reported once", len(locks))
	}
	if got := len(f.called()); got != len(locks) {
		t.Errorf("%d requests, want %d", got, len(locks))
	}

	f.answers(gone)
	d.Renew(t.Context(), locks[:1], func(_ int, _ driver.Instant, err error) {
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("a lock of which nothing exists: %v, want ErrLost", err)
		}
	})
	f.answers("-LOADING Redis is loading the dataset in memory\r\n")
	d.Renew(t.Context(), locks[1:2], func(_ int, _ driver.Instant, err error) {
		if err == nil || errors.Is(err, locker.ErrLost) {
			t.Errorf("a server that is loading: %v, want an error that is not ErrLost", err)
		}
	})
}

// When one answer of a message stays out, those that came before it count.
func TestAnsweredBeforeTheRest(t *testing.T) {
	for what, rest := range map[string]string{"silence": "", "a broken connection": hangUp} {
		t.Run(what, func(t *testing.T) {
			f := newFake(t)
			for _, d := range []driver.Driver{f.driver(t, nil), f.ownDriver(t)} {
				locks := []driver.Lock{newLock(t, d, time.Minute), newLock(t, d, time.Minute), newLock(t, d, time.Minute)}
				f.answers(granted, gone, rest)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				got := make([]error, len(locks))
				d.Renew(ctx, locks, func(i int, _ driver.Instant, err error) { got[i] = err })
				if got[0] != nil || !errors.Is(got[1], locker.ErrLost) || got[2] == nil || errors.Is(got[2], locker.ErrLost) {
					t.Errorf("Renew reports %v, want nil, ErrLost and an error that is not ErrLost", got)
				}
			}
		})
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

func TestClientsThatAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	auto, err := client.AsyncAutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []redis.UniversalClient{ring, auto} {
		if _, err := redisbackend.New(t.Context(), c); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("New with a %T = %v, want ErrUnsupported", c, err)
		}
	}
}
