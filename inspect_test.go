package locker_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/middleware"
)

// fakeInspector knows some locks, and the arguments of the last call.
type fakeInspector struct {
	fakeLocker
	locks   []locker.Status
	asked   string
	slot    int
	waiters int
	err     error
}

func (f *fakeInspector) Inspect(_ context.Context, name string, look locker.Look) (locker.Status, error) {
	f.asked, f.slot, f.waiters = name, look.Slot, look.Waiters
	for _, s := range f.locks {
		if s.Name == name {
			return s, f.err
		}
	}
	return locker.Status{Name: name}, f.err
}

func (f *fakeInspector) List(_ context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
	f.asked, f.waiters = prefix, waiters
	return func(yield func(locker.Status, error) bool) {
		for _, s := range f.locks {
			if s.Holder != nil {
				party := *s.Holder
				s.Holder = &party
			}
			if (s.Name == "" || strings.HasPrefix(s.Name, prefix)) && !yield(s, nil) {
				return
			}
		}
		if f.err != nil {
			yield(locker.Status{}, f.err)
		}
	}
}

func held(name string, token locker.Token) locker.Status {
	return locker.Status{Name: name, Key: "key/" + name, Holder: &locker.Party{Token: token}}
}

func names(l locker.Locker, prefix string) (names []string, err error) {
	for s, err := range locker.List(context.Background(), l, prefix, 3) {
		if err != nil {
			return names, err
		}
		names = append(names, s.Name)
	}
	return names, nil
}

func TestInspectWithTokenBase(t *testing.T) {
	inner := &fakeInspector{locks: []locker.Status{
		held("held", 7), held("unknown", 0), held("foreign", math.MaxInt64), held("negative", -7), {Name: "free"},
		{Name: "split", Partial: []locker.Party{{Token: 8}, {}}},
	}}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]locker.Token{"held": 1007, "unknown": 0, "foreign": 0, "negative": 0, "free": -1, "split": -1}
	for s, err := range locker.List(t.Context(), observer{l}, "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Holder == nil {
			s.Holder = &locker.Party{Token: -1}
		}
		if s.Holder.Token != want[s.Name] {
			t.Errorf("List shows token %v of %q, want %v", s.Holder.Token, s.Name, want[s.Name])
		}
		if s.Name == "split" && (s.Partial[0].Token != 1008 || s.Partial[1].Token != 0) {
			t.Errorf("List shows %+v, want tokens 1008 and none", s.Partial)
		}
	}
	if s, err := locker.Inspect(t.Context(), l, "held", locker.Look{Slot: 3, Waiters: 2}); err != nil || s.Holder.Token != 1007 || inner.slot != 3 || inner.waiters != 2 {
		t.Errorf("Inspect = %+v, %v, want token 1007, and slot 3 and 2 waiters asked for, not %d and %d", s.Holder, err, inner.slot, inner.waiters)
	}
	inner.err = errors.New("down")
	if _, err := locker.Inspect(t.Context(), l, "free", locker.Look{}); !errors.Is(err, inner.err) {
		t.Errorf("Inspect of a service that is down = %v, want its error", err)
	}
	if _, err := names(l, ""); !errors.Is(err, inner.err) {
		t.Errorf("List of a service that is down = %v, want its error", err)
	}
}

func TestInspectBelowAPrefix(t *testing.T) {
	inner := &fakeInspector{locks: []locker.Status{held("p/a", 1), held("p/", 2), held("pa", 3), held("p/b", 4), held("", 5)}}
	l, err := middleware.Prefix(observer{inner}, "p/")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := names(l, ""); !slices.Equal(got, []string{"a", "b"}) || err != nil || inner.asked != "p/" || inner.waiters != 3 {
		t.Errorf("List = %q, %v, want a and b; asked for %q with %d waiters", got, err, inner.asked, inner.waiters)
	}
	for _, err := range locker.List(t.Context(), l, "", 0) {
		if err != nil {
			t.Errorf("List = %v", err)
		}
		break
	}
	if got, err := names(l, "b"); !slices.Equal(got, []string{"b"}) || err != nil || inner.asked != "p/b" {
		t.Errorf("List = %q, %v, want b; asked for %q", got, err, inner.asked)
	}
	if s, err := locker.Inspect(t.Context(), l, "a", locker.Look{Slot: 2}); s.Name != "a" || s.Holder == nil || err != nil || inner.asked != "p/a" || inner.slot != 2 {
		t.Errorf("Inspect = %+v, %v, want a; asked for %q", s, err, inner.asked)
	}
	if _, err := locker.Inspect(t.Context(), l, "", locker.Look{}); !errors.Is(err, locker.ErrName) {
		t.Errorf("Inspect of no name = %v, want ErrName", err)
	}
	inner.err = errors.New("down")
	if _, err := names(l, ""); !errors.Is(err, inner.err) {
		t.Errorf("List of a service that is down = %v, want its error", err)
	}
}

func TestInspectWhereNobodyCanTell(t *testing.T) {
	l := &fakeLocker{guarantees: locker.Guarantees{Backend: "fake"}}
	based, err := locker.TokenBase(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := middleware.Prefix(l, "p/")
	if err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]locker.Locker{"a Locker": l, "a token base": based, "a prefix": prefixed} {
		_, err := locker.Inspect(t.Context(), l, "a", locker.Look{})
		var e *locker.Error
		if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Op != "inspect" || e.Backend != "fake" {
			t.Errorf("%s: Inspect = %v, want ErrUnsupported", what, err)
		}
		if _, err := names(l, ""); !errors.Is(err, locker.ErrNoInspector) || !errors.As(err, &e) || e.Op != "list" {
			t.Errorf("%s: List = %v, want ErrNoInspector", what, err)
		}
	}
}
