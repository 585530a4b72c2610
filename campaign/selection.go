package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// selection is which rows a run has. Each pattern is for names of one kind.
type selection struct {
	backends, faults, libraries, workloads *regexp.Regexp

	planted bool // locks with a mistake, in place of libraries
	sample  bool // each fault on one backend alone, and the control on all
}

// newSelection compiles the patterns. Those of faults and workloads match whole names, so that cut
// means the cut in both directions, and not all cuts.
func newSelection(backend, fault, library, workload string, planted bool) (selection, error) {
	s := selection{planted: planted}
	for _, p := range []struct {
		to         **regexp.Regexp
		flag, text string
	}{
		{&s.backends, "backend", backend},
		{&s.faults, "fault", anchored(fault)},
		{&s.libraries, "library", library},
		{&s.workloads, "workload", anchored(workload)},
	} {
		var err error
		if *p.to, err = regexp.Compile(p.text); err != nil {
			return s, fmt.Errorf("-%s is invalid: %w", p.flag, err)
		}
	}
	return s, s.check()
}

// anchored makes a pattern match whole names. An empty one matches all.
func anchored(text string) string {
	if text == "" {
		return ""
	}
	return "^(" + text + ")$"
}

// has reports whether a fault is run on a backend.
func (s selection) has(b backend, f fault) bool {
	return s.backends.MatchString(b.name) && s.faults.MatchString(f.name) && b.has(f) &&
		(!s.sample || f.name == controlFault || b.name == samples[f.name])
}

// samples says on which backend each fault is sampled: on the one with the fewest others. The last
// faults of the table, which few backends have, choose first. After a loss of all data an operator
// has to act on Postgres, so that is sampled there.
var samples = func() map[string]string {
	chosen, load := map[string]string{"data-loss": "postgres"}, map[string]int{"postgres": 1}
	for _, f := range slices.Backward(faults) {
		if chosen[f.name] != "" {
			continue
		}
		fewest := ""
		for _, b := range slices.Backward(backends) {
			if b.has(f) && (fewest == "" || load[b.name] < load[fewest]) {
				fewest = b.name
			}
		}
		chosen[f.name] = fewest
		load[fewest]++
	}
	return chosen
}()

// of returns the libraries of a backend that take part.
func (s selection) of(b backend) []library {
	return slices.DeleteFunc(slices.Clone(b.libraries), func(l library) bool {
		return (l.planted != nil) != s.planted || !s.libraries.MatchString(l.name)
	})
}

// check returns an error for each pattern that no name matches, because a run without rows would
// look like one without failures.
func (s selection) check() (err error) {
	var backendNames, libraryNames, faultNames, workloadNames []string
	everything := s
	everything.libraries = regexp.MustCompile("")
	for _, b := range backends {
		backendNames = append(backendNames, b.name)
		if s.backends.MatchString(b.name) {
			for _, l := range everything.of(b) {
				libraryNames = append(libraryNames, l.name)
			}
		}
	}
	for _, f := range faults {
		faultNames = append(faultNames, f.name)
	}
	for _, w := range workloads {
		workloadNames = append(workloadNames, w.name)
	}
	for _, p := range []struct {
		flag    string
		pattern *regexp.Regexp
		names   []string
	}{
		{"backend", s.backends, backendNames},
		{"fault", s.faults, faultNames},
		{"library", s.libraries, libraryNames},
		{"workload", s.workloads, workloadNames},
	} {
		if len(p.names) > 0 && !slices.ContainsFunc(p.names, p.pattern.MatchString) {
			slices.Sort(p.names)
			err = errors.Join(err, fmt.Errorf("-%s %q is invalid: it matches none of: %s", p.flag, p.pattern, strings.Join(slices.Compact(p.names), ", ")))
		}
	}
	if err == nil && len(libraryNames) == 0 {
		err = fmt.Errorf("-backend %q has no planted locks", s.backends)
	}
	return err
}
