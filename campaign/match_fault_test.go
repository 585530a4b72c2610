package main

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A holder falls silent before the service's fault begins, which the rival needn't wait for, and the
// section goes on after both.
func TestHappen(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(f *fault)
		guards  bool // the rival has the lock at once
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"at once", func(*fault) {}, false, 0, 0},
		{"longer than the TTL", func(f *fault) { f.outlasts = true }, true, 4 * time.Second, 6 * time.Second},
		{"until the rival has the lock", func(f *fault) { f.awaitsRival = true }, true, 0, 0},
		{"not for long", func(f *fault) { f.awaitsRival = true }, false, 2 * time.Second, 2 * time.Second},
		{"silent", func(f *fault) { f.silent = true }, true, 4 * time.Second, 6 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				step := func(name string) func(context.Context, *match) error {
					return func(context.Context, *match) error {
						order = append(order, name)
						return nil
					}
				}
				f := fault{inject: step("inject"), undo: step("undo")}
				tc.change(&f)
				var m *match
				g := gatherAll(1, func(context.Context) error {
					order = append(order, "service")
					select {
					case <-m.broken:
					default:
						t.Error("the rival has to wait for the service's fault")
					}
					return nil
				})
				m = newMatch(backend{ttl: 4 * time.Second}, &service{}, library{}, workloads[0], false, f, schedule{}, "lock", g)
				m.rival = new(process)
				if tc.guards {
					close(m.guarding)
				}
				begin := time.Now()
				if err := m.happen(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took < tc.atLeast || took > tc.atMost {
					t.Errorf("the section went on after %v, want %v to %v", took, tc.atLeast, tc.atMost)
				}
				if want := []string{"inject", "service", "undo"}; !slices.Equal(order, want) || m.injected == 0 {
					t.Errorf("%v, injected at %d; want %v, and when it began", order, m.injected, want)
				}
			})
		})
	}
}
