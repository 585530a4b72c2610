package fence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

func TestStaleError(t *testing.T) {
	var m fence.Memory
	if err := m.Claim(t.Context(), "invoice/42", 7); err != nil {
		t.Fatal(err)
	}
	err := m.Claim(t.Context(), "invoice/42", 6)
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Highest != 7 || stale.Token != 6 || stale.Resource != "invoice/42" {
		t.Fatalf("Claim(6) = %#v, want a StaleError with the mark 7", err)
	}
	if want := `fencing token is stale: 6 is below 7, which "invoice/42" has seen`; err.Error() != want {
		t.Errorf("the error says %q, want %q", err, want)
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		resource string
		token    locker.Token
		want     error
	}{
		{"a", 1, nil},
		{"", 1, locker.ErrName},
		{strings.Repeat("a", locker.MaxName+1), 1, locker.ErrName},
	} {
		if err := fence.Check(tc.resource, tc.token); !errors.Is(err, tc.want) {
			t.Errorf("Check(%.10q, %d) = %v, want %v", tc.resource, tc.token, err, tc.want)
		}
	}
	for _, token := range []locker.Token{0, -1} {
		if err := fence.Check("a", token); err == nil {
			t.Errorf("Check(%d) = nil, want an error", token)
		}
	}
}

// What runs after a claim runs without another claim in between, and not at all when the token is stale.
func TestMemoryDo(t *testing.T) {
	var m fence.Memory
	failed := errors.New("failed")
	if err := m.Do("a", 5, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Do = %v, want the error of its function", err)
	}
	if err := m.Claim(t.Context(), "a", 4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Claim(4) = %v, want ErrStale: the claim is valid", err)
	}
	ran := false
	if err := m.Do("a", 4, func() error { ran = true; return nil }); !errors.Is(err, fence.ErrStale) || ran {
		t.Errorf("Do(4) = %v, and ran: %v; want ErrStale, and nothing done", err, ran)
	}
}
