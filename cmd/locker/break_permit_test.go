package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// A permit is taken away by its slot. The lock of its name, and other permits, stay.
func TestBreakOfAPermit(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		permits := make(map[int]locker.Lease)
		for range 2 {
			permit, err := locker.AcquirePermit(t.Context(), l, "deploy", 2, locker.WithHolder("worker"))
			if err != nil {
				t.Fatal(err)
			}
			permits[locker.Slot(permit)] = permit
		}
		b := breakOf(t, breakOptions{reason: "the drive is broken", slot: 2, wait: true}, "deploy", "y\n")
		if err := b.run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		var breach *locker.Breach
		if err := permits[2].Err(); !errors.As(err, &breach) || breach.Slot != 2 || !strings.Contains(err.Error(), "slot 2: taken away by ") {
			t.Errorf("the Err of the permit is %v", err)
		}
		if lease.Err() != nil || permits[1].Err() != nil {
			t.Errorf("the lock's Err is %v, and the other permit's %v", lease.Err(), permits[1].Err())
		}
		if text := b.stderr.String(); !strings.HasPrefix(text, "deploy, permit 2 is held by worker, for ") {
			t.Errorf("the question is %q", text)
		}
		if line := b.audit(t); line.Slot != 2 || line.Name != "deploy" || line.Token != permits[2].Token().String() {
			t.Errorf("audit %+v", line)
		}
		err := breakOf(t, breakOptions{reason: "x", slot: 2, yes: true, token: permits[2].Token().String()}, "deploy", "").run(t.Context(), l)
		wantCode(t, err, exitChecked)
		if !strings.Contains(err.Error(), "nobody holds deploy, permit 2") {
			t.Errorf("a second break: %v", err)
		}
	})
}

// What isn't known isn't part of the question.
func TestQuestionWithoutWhatIsNotKnown(t *testing.T) {
	for _, test := range []struct {
		status locker.Status
		want   string
	}{
		{locker.Status{Name: "a", Holder: &locker.Party{Holder: "alice"}, Waiting: -1}, "a is held by alice.\n"},
		{locker.Status{Name: "a", Holder: &locker.Party{Holder: "alice"}, Waiting: 1}, "a is held by alice; 1 waits.\n"},
		{locker.Status{Name: "a", Slot: 3, Holder: &locker.Party{Owner: "0a"}, Waiting: 2}, "a, permit 3 is held by owner 0a; 2 wait.\n"},
	} {
		v := victim{row: rowOf("etcd", test.status, test.status.Holder.Asked), token: 7}
		if got := v.question(locker.Guarantees{Break: locker.BreakSeenAtOnce}, locker.Breach{}); !strings.HasPrefix(got, test.want) || !strings.Contains(got, "A storage accepts the token 7 until a larger one has claimed there.\nTake it away?") {
			t.Errorf("the question is %q, want %q", got, test.want)
		}
	}
}

func TestShowOfAPermitThatIsTakenAway(t *testing.T) {
	link := membackend.NewLink()
	service := membackend.NewServer()
	l, operator := membackend.New(membackend.WithServer(service), membackend.WithLink(link)), membackend.New(membackend.WithServer(service))
	defer operator.Close()
	defer l.Close()
	defer link.Heal()
	permit, err := locker.AcquirePermit(t.Context(), l, "pool", 1)
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if _, err := locker.Break(t.Context(), operator, "pool", permit.Token(), locker.Breach{By: "bob", Reason: "hangs", Slot: 1}); err != nil {
		t.Fatal(err)
	}
	text, _, _, err := showPermits(t.Context(), operator, "pool", locker.Look{}, false)
	if err != nil || !strings.Contains(text, "slot 1 is being taken away by bob at ") {
		t.Errorf("show --permits: %q, %v", text, err)
	}
	text, _, _, err = showPermits(t.Context(), operator, "pool", locker.Look{}, true)
	if err != nil || strings.Count(text, `"slot": 1`) != 2 {
		t.Errorf("show --permits in JSON: %q, %v, want the slot of the permit and of the breach", text, err)
	}
}

// A lock that is being taken away is shown as such.
func TestShowOfALockThatIsTakenAway(t *testing.T) {
	cutOff(t, func(t *testing.T, operator locker.Locker, lease locker.Lease) {
		if _, err := locker.Break(t.Context(), operator, "deploy", lease.Token(), locker.Breach{By: "bob", Reason: "hangs"}); err != nil {
			t.Fatal(err)
		}
		text, _, err := showLock(t.Context(), operator, "deploy", locker.Look{}, false)
		if err != nil || !strings.Contains(text, "being taken away by bob at ") || !strings.Contains(text, ": hangs") {
			t.Errorf("show: %q, %v", text, err)
		}
		text, _, err = showLock(t.Context(), operator, "deploy", locker.Look{}, true)
		if err != nil || !strings.Contains(text, `"reason": "hangs"`) {
			t.Errorf("show in JSON: %q, %v", text, err)
		}
	})
}
