package locker_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
)

func TestWithHolder(t *testing.T) {
	for _, text := range []string{"-", "a", "web-7f9c/4711/reportd", "deploy by alice, OPS-118", "日本語", strings.Repeat("n", 200)} {
		if r, err := locker.Resolve("name", locker.WithHolder(text)); err != nil || r.Holder != text || r.Features != 0 {
			t.Errorf("WithHolder(%q) = %+v, %v, want the text and no feature", text, r, err)
		}
	}
	for _, text := range []string{"", "a\nb", "\x00", "\x1b[2J", "\u0085", "\xff", "a\xc3", strings.Repeat("n", 201), strings.Repeat("ä", 101)} {
		_, err := locker.Resolve("name", locker.WithHolder(text))
		if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "holder") || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("WithHolder(%q) = %q, want ErrOption that names it in printable characters", text, err)
		}
	}
}

func TestDefaultHolder(t *testing.T) {
	text := locker.DefaultHolder()
	if _, err := locker.Resolve("name", locker.WithHolder(text)); err != nil || strings.Count(text, "/") < 2 {
		t.Errorf("DefaultHolder = %q, %v, want HOST/PID/PROGRAM", text, err)
	}
	for _, tc := range []struct {
		host, program string
		pid           int
		want          string
	}{
		{"web-7f9c", "/usr/bin/reportd", 4711, "web-7f9c/4711/reportd"},
		{"", "", 1, "?/1/?"},
		{"a\nb\xff", "\x1b[2J", 1, "a?b?/1/?[2J"},
	} {
		if got := locker.HolderOf(tc.host, tc.pid, tc.program); got != tc.want {
			t.Errorf("host %q, program %q: %q, want %q", tc.host, tc.program, got, tc.want)
		}
	}
}

func FuzzDefaultHolder(f *testing.F) {
	f.Add("web", 1, "/bin/reportd")
	f.Add(strings.Repeat("ä", 300), -1<<63, strings.Repeat("\xff", 300))
	f.Add("", 0, "/")
	f.Fuzz(func(t *testing.T, host string, pid int, program string) {
		text := locker.HolderOf(host, pid, program)
		if _, err := locker.Resolve("name", locker.WithHolder(text)); err != nil {
			t.Errorf("host %q, pid %d, program %q: %v", host, pid, program, err)
		}
	})
}

// asked remembers the requests that it gets.
type asked struct {
	fakeLocker
	requests []locker.Request
}

func (a *asked) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	r, err := locker.Resolve(name, opts...)
	a.requests = append(a.requests, r)
	if err != nil {
		return nil, err
	}
	return a.fakeLocker.Acquire(ctx, name)
}

var holderOpens locker.Locker // by a URL with the scheme holder

func init() {
	locker.Register("holder", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		if u.RawQuery != "a=b" {
			return nil, errors.New("the backend gets " + u.RawQuery)
		}
		return holderOpens, nil
	})
}

func TestOpenHolder(t *testing.T) {
	inner := &asked{fakeLocker: fakeLocker{lease: newFakeLease()}}
	holderOpens = inner
	for _, more := range []string{"", "&token_base=1000"} {
		inner.requests = nil
		l, err := locker.Open(t.Context(), "holder://host?a=b&holder=deploy+by%20alice"+more)
		if err != nil {
			t.Fatal(err)
		}
		for _, opts := range [][]locker.Option{nil, {locker.WithHolder("another")}, {locker.NoWait()}} {
			if _, err := l.Acquire(t.Context(), "name", opts...); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []string{"deploy by alice", "another", "deploy by alice"} {
			if got := inner.requests[i]; got.Holder != want || got.NoWait != (i == 2) {
				t.Errorf("request %d is %+v, want the holder %q", i, got, want)
			}
		}
		if found, ok := locker.AsLocker[*asked](l); ok != (more == "") || ok && found != inner {
			t.Errorf("AsLocker finds %v, %v below the holder", found, ok)
		}
	}
	for _, value := range []string{"", "%00", "%ff", "a&holder=b", strings.Repeat("x", 201)} {
		_, err := locker.Open(t.Context(), "holder://host?a=b&holder="+value)
		if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "holder: ") || strings.Contains(err.Error(), "xxx") {
			t.Errorf("Open with the holder %q = %v, want ErrOption that names the parameter and not its value", value, err)
		}
	}
}
