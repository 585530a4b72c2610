package dialog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

const ttl = 10 * time.Second

// program is the other side of a dialog about the lock x.
type program struct {
	*Dialog
	t       *testing.T
	in      *io.PipeWriter
	out     *bufio.Scanner
	outPipe *io.PipeReader
}

func start(t *testing.T) *program {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &program{Dialog: Start("x", in, out), t: t, in: write, out: bufio.NewScanner(read), outPipe: read}
	t.Cleanup(func() {
		_ = write.Close()
		_ = read.Close()
	})
	return p
}

func (p *program) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text); err != nil {
		p.t.Fatal(err)
	}
}

// want reads a line, whose event must be this one.
func (p *program) want(event string) line {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("no line, want %q", event)
	}
	var l line
	d := json.NewDecoder(strings.NewReader(p.out.Text()))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil || l.Event != event {
		p.t.Fatalf("line %s, %v, want event %q", p.out.Text(), err, event)
	}
	return l
}

// acquire gets the lock x on a service behind link.
func acquire(t *testing.T, link *membackend.Link, opts ...locker.Option) (locker.Locker, locker.Lease) {
	t.Helper()
	l := membackend.New(membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
	lease, err := l.Acquire(t.Context(), "x", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, lease
}

// keep runs Keep in the background.
func (p *program) keep(ctx context.Context, lease locker.Lease) (kept chan error) {
	kept = make(chan error, 1)
	go func() { kept <- p.Keep(ctx, lease) }()
	return kept
}

// wantDeadline fails unless the line has the lease's deadline, or one that is not earlier by more
// than a millisecond.
func (p *program) wantDeadline(l line, lease locker.Lease) {
	p.t.Helper()
	at, err := time.Parse(time.RFC3339, l.Wall)
	early := lease.Deadline().Sub(at)
	if err != nil || early < 0 || early >= 2*time.Millisecond || !strings.HasSuffix(l.Wall, "Z") {
		p.t.Errorf("deadline %q, %v, want %v", l.Wall, err, lease.Deadline())
	}
	if (l.Boottime != 0) != (boottime() != 0) || l.Boottime != 0 && l.Boottime < boottime() {
		p.t.Errorf("deadline_boottime_ns %d, want one that is not over at %d", l.Boottime, boottime())
	}
}

func TestChecksWhileTheLockIsWaitedForHeldAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.say("check\n")
		if l := p.want(eventWaiting); l.Name != "x" || l.Wall != "" {
			t.Errorf("line %+v, want the name alone", l)
		}
		_, lease := acquire(t, membackend.NewLink())
		kept := p.keep(t.Context(), lease)
		granted := p.want(eventGranted)
		if granted.Name != "x" || granted.Token != lease.Token().String() {
			t.Errorf("line %+v, want x and the token %v", granted, lease.Token())
		}
		p.wantDeadline(granted, lease)
		time.Sleep(ttl / 2) // it was renewed meanwhile
		p.say("check\n")
		p.wantDeadline(p.want(eventHeld), lease)
		go func() {
			p.say(strings.Repeat("check\n", 20) + "check")
			_ = p.in.Close()
			if err := <-kept; err != nil || lease.Err() != nil {
				t.Errorf("Keep = %v, lease %v, want nil and a lease that is held", err, lease.Err())
			}
			_ = p.Released(nil)
		}()
		for range 21 { // the last is of the line without an end
			p.want(eventHeld)
		}
		p.want(eventReleased)
	})
}

func TestALeaseThatNeverEndsByTimeHasNoDeadline(t *testing.T) {
	if got := string((line{Event: eventHeld, deadline: deadlineOf(endless{})}).text()); got != `{"event":"held"}`+"\n" {
		t.Errorf("line %s, want no deadline", got)
	}
}

type endless struct{ locker.Lease }

func (endless) Deadline() time.Time { return time.Time{} }

func TestLoss(t *testing.T) {
	for _, test := range []struct {
		cause string
		opts  []locker.Option
		fault func(*membackend.Link)
	}{
		{"service_silent", nil, func(link *membackend.Link) { link.Cut() }},
		{"max_hold", []locker.Option{locker.WithMaxHold(5 * time.Second)}, func(*membackend.Link) {}},
	} {
		t.Run(test.cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := membackend.NewLink()
				_, lease := acquire(t, link, test.opts...)
				p := start(t)
				kept := p.keep(t.Context(), lease)
				p.want(eventGranted)
				test.fault(link)
				if err := <-kept; err != nil {
					t.Errorf("Keep = %v, want nil", err)
				}
				p.say("check\n")
				go func() { _ = p.Lost(lease.Err()) }()
				if l := p.want(eventLost); l.Cause != test.cause || l.Error != lease.Err().Error() {
					t.Errorf("line %+v, want the cause %q and the error %v", l, test.cause, lease.Err())
				}
				link.Heal()
			})
		})
	}
}

// A process that wakes up after the deadline has a check in its input, a renewal in its queue, and
// a lease of which only its clock knows that it is over.
func TestLostIsTheFirstWordAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			p := start(t)
			lease := &paused{done: make(chan struct{})}
			kept := p.keep(t.Context(), lease)
			p.want(eventGranted)
			lease.over = true
			p.Renewed()
			p.say("check\n")
			synctest.Wait()
			close(lease.done)
			if err := <-kept; err != nil {
				t.Errorf("Keep = %v, want nil", err)
			}
			go func() { _ = p.Lost(lease.Err()) }()
			p.want(eventLost)
		}
	})
}

// paused is a lease whose Done is late.
type paused struct {
	locker.Lease
	done chan struct{}
	over bool
}

func (l *paused) Token() locker.Token   { return 1 }
func (l *paused) Deadline() time.Time   { return time.Now() }
func (l *paused) Done() <-chan struct{} { return l.done }
func (l *paused) Err() error {
	if l.over {
		return locker.ErrLost
	}
	return nil
}

func TestRenewalsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lease := acquire(t, membackend.NewLink())
		p := start(t)
		p.Renewed() // one that comes before the announcement of the lease
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		kept := p.keep(ctx, lease)
		p.want(eventGranted)
		stop, err := locker.Observe(l, announcer{p}, locker.EventRenewed)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for range 3 {
			last := lease.Deadline()
			p.wantDeadline(p.want(eventRenewed), lease)
			if !lease.Deadline().After(last) {
				t.Errorf("the deadline is %v, want one after %v", lease.Deadline(), last)
			}
		}
		cancel()
		if err := <-kept; err != nil {
			t.Errorf("Keep = %v, want nil", err)
		}
	})
}

type announcer struct{ *program }

func (a announcer) Observe(context.Context, locker.Event) { a.Renewed() }

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		for text, want := range map[string]string{
			"check\n":                              "",
			"check\r\n":                            "",
			"  check \n":                           "",
			"\n":                                   `invalid request "": want the line check`,
			"release\n":                            `invalid request "release": want the line check`,
			"CHECK\n":                              `invalid request "CHECK": want the line check`,
			"check x\n":                            `invalid request "check x": want the line check`,
			"redis://u:p@h\n":                      "invalid request: want the line check",
			strings.Repeat("x", 41) + "\n":         "invalid request: want the line check",
			strings.Repeat("x", maxLine) + "\n":    "invalid request of more than 4096 bytes: want the line check",
			strings.Repeat("check ", 9999) + "\n":  "invalid request of more than 4096 bytes: want the line check",
			strings.Repeat(" ", 9999) + "check\n":  "invalid request of more than 4096 bytes: want the line check",
			strings.Repeat("x", 3*maxLine) + "\n":  "invalid request of more than 4096 bytes: want the line check",
			strings.Repeat("\xff\x00", 10) + "\n":  `invalid request "` + strings.Repeat(`\xff\x00`, 10) + `": want the line check`,
			strings.Repeat(" ", 30) + "\tcheck \n": "",
		} {
			for i := range len(text) { // in any parts
				if i == 7 {
					p.say(text[i:])
					break
				}
				p.say(text[i : i+1])
			}
			if want == "" {
				p.want(eventWaiting)
			} else if l := p.want(eventError); l.Error != want {
				t.Errorf("%.60q: error %q, want %q", text, l.Error, want)
			}
		}
		p.say("chec")
		_ = p.in.Close()
		if l := p.want(eventError); l.Error != `invalid request "chec": want the line check` {
			t.Errorf("error %q for a line without its end", l.Error)
		}
	})
}

// A reader that has stalled delays the end by a bounded time, whatever else it has asked for.
func TestAStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lease := acquire(t, membackend.NewLink())
		p := start(t)
		kept := p.keep(t.Context(), lease)
		p.say(strings.Repeat("check\n", maxPending/2))
		_ = p.in.Close()
		began := time.Now()
		if err := <-kept; err != nil {
			t.Errorf("Keep = %v, want nil", err)
		}
		if err := p.Released(nil); !errors.Is(err, errStalled) {
			t.Errorf("Released = %v, want %v", err, errStalled)
		}
		if took := time.Since(began); took > 3*patience {
			t.Errorf("the end took %v, want at most %v", took, 3*patience)
		}
		_ = p.outPipe.Close()
		synctest.Wait()
	})
}

// Somebody who never heard of the lease can't rely on it. Somebody who did may go on.
func TestAReaderThatHasGone(t *testing.T) {
	for _, heard := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, lease := acquire(t, membackend.NewLink())
			p := start(t)
			if !heard {
				_ = p.outPipe.Close()
			}
			kept := p.keep(t.Context(), lease)
			if heard {
				p.want(eventGranted)
				_ = p.outPipe.Close()
				p.say("check\ncheck\n")
				synctest.Wait()
				select {
				case err := <-kept:
					t.Fatalf("Keep = %v, want it to keep the lease", err)
				default:
				}
				_ = p.in.Close()
			}
			if err := <-kept; (err == nil) != heard {
				t.Errorf("heard %v: Keep = %v", heard, err)
			}
			if err := p.Released(nil); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("heard %v: Released = %v, want %v", heard, err, io.ErrClosedPipe)
			}
		})
	}
}

func TestAReleaseThatIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		_, lease := acquire(t, membackend.NewLink())
		kept := p.keep(t.Context(), lease)
		p.want(eventGranted)
		_ = p.in.Close()
		if err := <-kept; err != nil {
			t.Errorf("Keep = %v, want nil", err)
		}
		go func() { _ = p.Released(errors.New("no answer")) }()
		if l := p.want(eventReleased); l.Error != "no answer" {
			t.Errorf("line %+v, want the error", l)
		}
	})
}
