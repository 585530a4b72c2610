package main

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// answering is a Locker whose Break answers something else about a lock that it marks.
type answering struct {
	locker.Locker
	effect locker.Effect
	err    error
}

func (a answering) Inspect(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
	return locker.Inspect(ctx, a.Locker, name, look)
}

func (a answering) List(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	return locker.List(ctx, a.Locker, prefix, waiters)
}

func (a answering) Break(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	if a.err != nil {
		return a.effect, a.err
	}
	_, err := locker.Break(ctx, a.Locker, name, token, b)
	return a.effect, err
}

// Where the service knows no time, the wait has no end of its own.
func TestBreakWaitsWithoutATime(t *testing.T) {
	cutOff(t, func(t *testing.T, operator locker.Locker, lease locker.Lease) {
		began := time.Now()
		b := breakOf(t, breakOptions{reason: "cut off", yes: true, wait: true, token: lease.Token().String()}, "deploy", "")
		if err := b.run(t.Context(), answering{Locker: operator, effect: locker.Effect{Within: -1}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < passLimit+time.Second {
			t.Errorf("the lock has passed on after %v, want that it is waited for longer than %v", took, passLimit)
		}
		if line := b.audit(t); line.WithinMS == nil || *line.WithinMS != -1 {
			t.Errorf("audit %+v, want -1 for a time that isn't known", line)
		}
	})
}

// A lock that is free at once and isn't free all the same isn't waited for without end.
func TestBreakWaitsForALockThatIsFree(t *testing.T) {
	cutOff(t, func(t *testing.T, operator locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "cut off", yes: true, wait: true, token: lease.Token().String()}, "deploy", "")
		wantCode(t, b.run(t.Context(), answering{Locker: operator}), exitChecked)
		if line := b.audit(t); line.WithinMS == nil || *line.WithinMS != 0 {
			t.Errorf("audit %+v, want 0 for a lock that is free now", line)
		}
	})
}

// Times for programs are rounded up, because 0 says something else.
func TestTimesBelowAMillisecond(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	for d, want := range map[time.Duration]int64{
		-1: -1, 0: 0, 1: 1, time.Microsecond: 1, time.Millisecond: 1, time.Millisecond + 1: 2, math.MaxInt64: math.MaxInt64/int64(time.Millisecond) + 1,
	} {
		line := victim{row: statusRow{Holder: &partyRow{}}}.audit(l, locker.Breach{}, locker.Effect{Within: d}, nil)
		if line.WithinMS == nil || *line.WithinMS != want {
			t.Errorf("the audit of a lock that is free within %v is %+v, want within_ms %d", d, line, want)
		}
		if d < 0 {
			continue // nothing ends before now
		}
		if row := partyOf("etcd", locker.Party{ExpiresIn: d}); row.ExpiresMS != want {
			t.Errorf("expires_ms of %v = %d, want %d", d, row.ExpiresMS, want)
		}
	}
}

func TestBreakThatWouldEndOthers(t *testing.T) {
	cutOff(t, func(t *testing.T, operator locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "cut off", yes: true, now: true, token: lease.Token().String()}, "deploy", "")
		refused := answering{operator, locker.Effect{Others: 2}, &locker.Error{Op: "break", Name: "deploy", Err: locker.ErrOption}}
		wantCode(t, b.run(t.Context(), refused), exitUsage)
		if line := b.audit(t); line.Others != 2 || line.WithinMS != nil || line.Error == "" {
			t.Errorf("audit %+v, want that 2 others would end, and no time", line)
		}
	})
}

func TestWordsAboutWhatWasTaken(t *testing.T) {
	for within, want := range map[time.Duration]string{
		0: "the lock is free already", -1: "free for others when its holder has released it", time.Minute: "free for others in 1m0s at the latest",
		time.Microsecond: "free for others in 1ms at the latest",
	} {
		if got := taken(locker.Effect{Within: within}, false); !strings.Contains(got, want) {
			t.Errorf("within %v: %q, want %q", within, got, want)
		}
	}
}

func TestShowOfOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		for _, who := range []string{"first", "second"} {
			if _, err := locker.AcquirePermit(t.Context(), l, "pool", 2, locker.WithHolder(who)); err != nil {
				t.Fatal(err)
			}
		}
		seen := ""
		for slot := 1; slot <= 2; slot++ {
			text, held, err := showLock(t.Context(), l, "pool", locker.Look{Slot: slot}, false)
			if err != nil || !held || strings.Contains(text, "first") == strings.Contains(text, "second") {
				t.Errorf("show of slot %d: %q, %v, %v, want its holder and no other one", slot, text, held, err)
			}
			seen += text
		}
		if !strings.Contains(seen, "first") || !strings.Contains(seen, "second") {
			t.Errorf("show of both slots: %q", seen)
		}
		for _, slot := range []int{0, locker.LineSlot} {
			if text, held, err := showLock(t.Context(), l, "pool", locker.Look{Slot: slot}, false); err != nil || held {
				t.Errorf("show of slot %d: %q, %v, %v, want that nobody has it", slot, text, held, err)
			}
		}
	})
}

func TestShowRefusesSlots(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--slot", "1001"}, "slot 1001"},
		{[]string{"--slot", "-2"}, "slot -2"},
		{[]string{"--slot", "1", "--permits"}, "--permits"},
	} {
		cmd := newRoot()
		cmd.SetArgs(append([]string{"show", "--backend", "mem://", "deploy"}, test.flags...))
		err := cmd.Execute()
		wantCode(t, err, exitUsage)
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("show %q: %v", test.flags, err)
		}
	}
}

// The detail of a row of top is about the row's slot.
func TestTopShowsThePermitOfARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		permit, err := locker.AcquirePermit(t.Context(), l, "pool", 1, locker.WithHolder("worker"))
		if err != nil {
			t.Fatal(err)
		}
		screen := topOf(l, "", time.Second, nil, nil, nil)
		rows, _, err := screen.List(t.Context())
		if err != nil || len(rows) != 1 {
			t.Fatalf("List = %+v, %v, want the permit", rows, err)
		}
		text, err := screen.Detail(t.Context(), rows[0])
		if err != nil || !strings.Contains(text, "pool, permit 1") || !strings.Contains(text, "worker") || !strings.Contains(text, permit.Token().String()) {
			t.Errorf("the detail is %q, %v", text, err)
		}
		if lock, ok, err := (&uiOptions{}).page(l, "", "", nil).Inspect(t.Context(), "pool", 1); err != nil || !ok || !strings.Contains(string(lock), `"label":"worker"`) {
			t.Errorf("the page shows %s, %v, %v", lock, ok, err)
		}
		if _, ok, err := (&uiOptions{}).page(l, "", "", nil).Inspect(t.Context(), "pool", locker.MaxPermits+1); ok || !errors.Is(err, locker.ErrOption) {
			t.Errorf("the page of a slot that can't be: %v, %v, want that there is none", ok, err)
		}
	})
}
