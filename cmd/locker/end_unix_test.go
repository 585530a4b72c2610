//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/dialog"
	"github.com/fencedlock/locker/membackend"
)

// hangs is a service that doesn't answer: calls that give a lock back last until gate is closed.
type hangs struct {
	locker.Locker
	locker.Lease
	gate             chan struct{}
	releases, closes bool // these calls last
}

func (h hangs) Release(context.Context) error {
	if h.releases {
		<-h.gate
	}
	return nil
}

func (h hangs) Close() error {
	if h.closes {
		<-h.gate
	}
	return nil
}

// A signal ends the wait for a service that doesn't answer, and not when it has just begun. The wait is that for
// Release and Close together. The line about a lock that may still be held is printed with --quiet, too.
func TestSignalEndsALongEnd(t *testing.T) {
	for _, at := range []time.Duration{0, impatience / 2, 5 * impatience} {
		for _, h := range []hangs{{releases: true}, {closes: true}, {releases: true, closes: true}} {
			for _, quiet := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) { testLongEnd(t, h, at, quiet) })
			}
		}
	}
}

func testLongEnd(t *testing.T, h hangs, at time.Duration, quiet bool) {
	var stderr strings.Builder
	a := &acquirer{name: "x", stderr: &stderr, signals: make(chan os.Signal, 16), tty: terminal{fd: -1}, quiet: quiet}
	h.Locker, h.gate = membackend.New(), make(chan struct{})
	defer close(h.gate)
	time.AfterFunc(at, func() {
		a.signals <- syscall.SIGWINCH
		a.signals <- syscall.SIGTERM
	})
	began := time.Now()
	cmd := &exitError{code: 7}
	if err := (&runner{acquirer: a}).giveBack(h, h, false, cmd); err != cmd { //nolint:errorlint // the same one
		t.Errorf("the result is %v, want that of CMD", err)
	}
	if took := time.Since(began); took != max(at, impatience) {
		t.Errorf("%+v: a signal after %v ends the wait after %v, want %v", h, at, took, max(at, impatience))
	}
	says, lines := "the service has not confirmed that x is free; it is left to its TTL: terminated", 1
	if !h.releases {
		says = "no longer waiting for the service: terminated"
		if quiet {
			lines = 0
		}
	}
	if got := stderr.String(); strings.Count(got, says) != lines || strings.Count(got, "\n") != lines {
		t.Errorf("%+v, quiet: %v: stderr is %q, want %d of %s", h, quiet, got, lines, says)
	}
}

// A lock whose minimum hold is over, and whose removal is not confirmed, is not kept any more.
func TestSignalEndsALongEndAfterTheMinimumHold(t *testing.T) {
	const minHold = 10 * time.Second
	for _, quiet := range []bool{false, true} {
		for at, says := range map[time.Duration]string{
			minHold / 2:          "no longer keeping x: terminated",
			minHold + impatience: "the service has not confirmed that x is free; it is left to its TTL: terminated",
		} {
			synctest.Test(t, func(t *testing.T) {
				link := membackend.NewLink()
				l := membackend.New(membackend.WithLink(link))
				defer func() { // what the program leaves to its end
					link.Heal()
					_ = l.Close()
					time.Sleep(time.Minute)
				}()
				lease, err := l.Acquire(t.Context(), "x", locker.WithMinHold(minHold))
				if err != nil {
					t.Fatal(err)
				}
				link.Cut()
				var stderr strings.Builder
				a := &acquirer{name: "x", stderr: &stderr, signals: make(chan os.Signal, 16), tty: terminal{fd: -1}, quiet: quiet}
				time.AfterFunc(at, func() { a.signals <- syscall.SIGTERM })
				if err := (&runner{acquirer: a}).giveBack(l, lease, false, nil); err != nil {
					t.Errorf("giveBack = %v", err)
				}
				want := says
				if quiet && at < minHold {
					want = ""
				}
				if got := stderr.String(); got != "" && want == "" || !strings.Contains(got, want) {
					t.Errorf("a signal after %v, quiet: %v: stderr is %q, want %q", at, quiet, got, want)
				}
			})
		}
	}
}

// closing hangs in Close once everything is removed.
type closing struct {
	locker.Locker
	gate chan struct{}
}

func (l closing) Unwrap() locker.Locker { return l.Locker }

func (l closing) Close() error {
	err := l.Locker.Close()
	<-l.gate
	return err
}

// A lock whose minimum hold is over, and whose removal is confirmed, isn't said to be held.
func TestSignalAfterTheMinimumHold(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := closing{membackend.New(), make(chan struct{})}
			defer close(l.gate)
			lease, err := l.Acquire(t.Context(), "x", locker.WithMinHold(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			a := &acquirer{name: "x", stderr: &stderr, signals: make(chan os.Signal, 16), tty: terminal{fd: -1}, quiet: quiet}
			time.AfterFunc(time.Minute, func() { a.signals <- syscall.SIGTERM })
			if err := (&runner{acquirer: a}).giveBack(l, lease, false, nil); err != nil {
				t.Errorf("giveBack = %v", err)
			}
			says, want := stderr.String(), "no longer waiting for the service: terminated"
			if strings.Contains(says, "confirmed") || strings.Contains(says, want) == quiet {
				t.Errorf("quiet: %v: stderr is %q, want %q unless it is quiet", quiet, says, want)
			}
		})
	}
}

// A signal that comes when the lease is not kept any more ends the wait for its release.
func TestSignalAtTheEndOfHold(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var stderr strings.Builder
			k := &keeper{acquirer: &acquirer{name: "x", stderr: &stderr, signals: make(chan os.Signal, 16), tty: terminal{fd: -1}}}
			h := hangs{Locker: membackend.New(), gate: make(chan struct{}), releases: true}
			defer close(h.gate)
			k.dialog = dialog.Start(k.name, strings.NewReader(""), io.Discard)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(nil) // as when the lease is lost
			k.signals <- syscall.SIGTERM
			k.cancel(ctx, cancel)
			began := time.Now()
			if err := k.giveBack(h, h); err != nil {
				t.Errorf("giveBack = %v", err)
			}
			if took := time.Since(began); took != impatience {
				t.Errorf("the signal ends the wait after %v, want %v", took, impatience)
			}
		})
	}
}

// cut is what a command opens in a test, and the network between it and the service.
var cut struct {
	locker.Locker
	link *membackend.Link
}

func init() {
	locker.Register("cut", func(context.Context, *url.URL) (locker.Locker, error) { return cut.Locker, nil })
}

// While the service doesn't answer, one signal ends locker hold within a second, whatever has ended the lease; the
// last line says what is known.
func TestSignalEndsALongEndOfHold(t *testing.T) {
	for last, ends := range map[string]func(keys io.Closer){
		`{"event":"released","error":"not confirmed`: func(keys io.Closer) { _ = keys.Close() },
		`{"event":"lost"`: func(io.Closer) { time.Sleep(time.Minute) }, // the TTL is over
	} {
		synctest.Test(t, func(t *testing.T) {
			cut.link = membackend.NewLink()
			cut.Locker = lonely{membackend.New(membackend.WithLink(cut.link))}
			defer func() { // what the program leaves to its end
				cut.link.Heal()
				_ = cut.Close()
				time.Sleep(time.Minute)
			}()
			in, keys := io.Pipe()
			defer keys.Close()
			var out, stderr bytes.Buffer
			a := &acquirer{name: "x", url: "cut://", stderr: &stderr, held: exitHeld, opts: []locker.Option{locker.WithTTL(time.Minute)}}
			k := &keeper{acquirer: a, in: in, out: &out}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = k.run()
			}()
			synctest.Wait()
			cut.link.Cut()
			ends(keys)
			synctest.Wait()
			began := time.Now()
			a.signals <- syscall.SIGTERM
			<-ended
			if took := time.Since(began); took > impatience {
				t.Errorf("%s: locker ends %v after the signal, want %v at most", last, took, impatience)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if !strings.HasPrefix(lines[len(lines)-1], last) {
				t.Errorf("the last line is %s, want %s", lines[len(lines)-1], last)
			}
			if !strings.Contains(stderr.String(), "has not confirmed that x is free") {
				t.Errorf("stderr is %q", stderr.String())
			}
		})
	}
}

// late grants a lock just when the wait is given up.
type late struct {
	locker.Locker
	begun func()
}

func (l late) Unwrap() locker.Locker { return l.Locker }

func (l late) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	l.begun()
	<-ctx.Done()
	return l.Locker.Acquire(context.WithoutCancel(ctx), name, opts...)
}

// A lock that was granted just when a signal came is kept for --at-least, and a line says why locker stays.
func TestSignalAtTheGrant(t *testing.T) {
	const atLeast = time.Minute
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		a := &acquirer{name: "x", url: "cut://", stderr: &stderr, held: exitHeld, opts: []locker.Option{locker.WithMinHold(atLeast)}}
		cut.Locker = late{lonely{membackend.New()}, func() { a.signals <- syscall.SIGTERM }}
		began := time.Now()
		err := (&runner{acquirer: a, argv: []string{"true"}, atLeast: atLeast}).run()
		wantCode(t, err, exitSignal+int(syscall.SIGTERM))
		if took := time.Since(began); took < atLeast {
			t.Errorf("it took %v, want that the lock is kept for %v", took, atLeast)
		}
		synctest.Wait() // the line was printed in the background
		if got, want := stderr.String(), "locker: CMD was not started; keeping x until it was held for 1m0s\n"; got != want {
			t.Errorf("stderr is %q, want %q", got, want)
		}
	})
}
