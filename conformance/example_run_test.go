package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/membackend"
)

// The test of a backend. With an Open function and a TTL, the cases that need no fault run; each
// hook adds cases.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance
		conformance.Run(t, conformance.Harness{
			Open: func(t conformance.T) locker.Locker {
				l, err := locker.Open(t.Context(), "redis://localhost:6379") // your backend
				if err != nil {
					t.Fatalf("%v", err)
				}
				return l
			},
			TTL: 500 * time.Millisecond,
		})
	}
}

// A program that isn't a test evaluates cases, and says what can't be known without the hooks that
// are missing.
func ExampleEvaluate() {
	service := membackend.NewServer()
	h := conformance.Harness{
		TTL:  time.Second,
		Open: func(conformance.T) locker.Locker { return membackend.New(membackend.WithServer(service)) },
	}
	chosen := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return c.ID != "A1" && c.ID != "B11.1" })
	err := conformance.Evaluate(context.Background(), h, chosen, func(r conformance.Result) {
		fmt.Println(strings.TrimSpace(fmt.Sprint(r.Case, " ", r.Verdict, " ", r.Missing)))
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// A1-free-lock-is-granted passed
	// B11.1-silent-service-holds-nobody-up skipped Linked
}

// A search with random programs. Where the backend needs no network, it runs in bubbles, in which
// time passes at once.
func ExampleExplore() {
	_ = func(t *testing.T) { // TestExplore
		service := membackend.NewServer()
		conformance.Explore(t, conformance.Harness{
			TTL:  time.Second,
			Wrap: synctest.Test,
			Setup: func(_ conformance.T, h *conformance.Harness) {
				h.Open = func(conformance.T) locker.Locker { return membackend.New(membackend.WithServer(service)) }
			},
		}, conformance.Budget{Steps: 50_000})
	}
}
