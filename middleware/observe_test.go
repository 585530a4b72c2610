package middleware_test

import (
	"context"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

type names chan string

func (n names) Observe(_ context.Context, e locker.Event) { n <- e.Name }

func TestPrefixIsObserved(t *testing.T) {
	l := prefixed(t, membackend.NewServer(), "p/")
	got := make(names, 1)
	stop, err := locker.Observe(l, got, locker.EventGranted)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := l.Acquire(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if name := <-got; name != "p/job" {
		t.Errorf("the event is of %q, want the whole name", name)
	}
	if s, ok := locker.StatsOf(l); !ok || s.Held != 1 {
		t.Errorf("StatsOf = %+v, %v", s, ok)
	}
	if list, ok := locker.Leases(l); !ok || len(list) != 1 || list[0].Name != "p/job" {
		t.Errorf("Leases = %+v, %v", list, ok)
	}
}
