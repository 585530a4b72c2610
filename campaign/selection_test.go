package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSelection(t *testing.T) {
	for _, tc := range []struct {
		name                              string
		backend, fault, library, workload string
		planted                           bool
		want                              string // in the error; empty: there is none
	}{
		{name: "everything"},
		{name: "one of each", backend: "^redis$", fault: "cut", library: "redsync", workload: "set"},
		{name: "not a pattern", fault: "(", want: "-fault is invalid"},
		{name: "no backend", backend: "reddis", want: `-backend "reddis" is invalid: it matches none of: etcd, postgres, postgres-replica`},
		{name: "no fault", fault: "cu", want: "-fault"},
		{name: "no library", library: "lokcer", want: `-library "lokcer" is invalid`},
		{name: "no library of that backend", backend: "etcd", library: "redsync", want: "-library"},
		{name: "no workload", workload: "count", want: "-workload"},
		{name: "a planted lock without asking for it", library: "planted", want: "-library"},
		{name: "planted", planted: true, library: "planted"},
		{name: "a library among the planted locks", planted: true, library: "^redsync", want: "-library"},
		{name: "no planted locks", backend: "postgres", planted: true, want: "no planted locks"},
	} {
		_, err := newSelection(tc.backend, tc.fault, tc.library, tc.workload, tc.planted)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Patterns of faults are for whole names, and locks with a mistake don't run with libraries.
func TestSelected(t *testing.T) {
	s, err := newSelection("", "cut", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if s.faults.MatchString("cut-replies") || !s.faults.MatchString("cut") {
		t.Errorf("-fault cut means %v", s.faults)
	}
	one, err := newSelection("", "", "redsync", "", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		if slices.ContainsFunc(one.of(b), func(l library) bool { return l.name != "redsync" }) {
			t.Errorf("-library redsync: others take part on %s", b.name)
		}
		for _, l := range s.of(b) {
			if l.planted != nil {
				t.Errorf("%s, %s takes part without being asked for", b.name, l.name)
			}
		}
		if !slices.ContainsFunc(s.of(b), func(l library) bool { return l.name == thisProject }) {
			t.Errorf("this project doesn't take part on %s", b.name)
		}
	}
}

// A sample has each fault on one backend, the control on all, and no backend has the control alone.
func TestSampled(t *testing.T) {
	s, err := newSelection("", "", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	s.sample = true
	met := make(map[string]int)
	for _, b := range backends {
		all := 0
		for _, f := range faults {
			if s.has(b, f) {
				met[f.name]++
				all++
			}
		}
		if all < 2 || !s.has(b, faults[0]) {
			t.Errorf("%s meets %d faults, want the control and others", b.name, all)
		}
	}
	for _, f := range faults[1:] {
		if met[f.name] != 1 {
			t.Errorf("%d backends meet %q, want one", met[f.name], f.name)
		}
	}
}
