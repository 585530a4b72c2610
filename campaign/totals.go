package main

import "fmt"

// total is what this project did on one backend in a run, in all workloads.
type total struct {
	Backend  string
	Rounds   int   // that aren't void
	Faults   int   // a fault of the servers is one, whatever it happens to
	Updates  int   // that were acknowledged
	Lost     tally // with the fence
	Early    tally // rounds in which the rival was granted the lock before the holder knew of its loss
	Overlaps tally // rounds in which both believed that they had the lock
	Control  share // of the counter, lost without a fence
	Pause    share // the same
	Void     int   // rounds that prove nothing
}

// tally counts what is promised, and apart from it what the guarantees exclude under the fault.
type tally struct{ promised, excluded int }

func (t *tally) add(n int, reason string) {
	if reason == "" {
		t.promised += n
	} else {
		t.excluded += n
	}
}

func (t tally) String() string {
	if t.excluded == 0 {
		return fmt.Sprint(t.promised)
	}
	return fmt.Sprintf("%d, and %d where it isn't promised", t.promised, t.excluded)
}

type share struct{ part, of int }

func (s share) String() string {
	if s.of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", s.part, s.of)
}

// totals returns a total for each backend of a run.
func totals(r *result) (all []total) {
	for _, b := range backends {
		t := total{Backend: b.name}
		happened := make(map[string]int) // by fault and workload: rounds with a fault of the servers
		for _, w := range backendRows(r, b.name) {
			if w.Library == thisProject {
				t.add(w, b, happened)
			}
		}
		for _, n := range happened {
			t.Faults += n
		}
		if t.Rounds > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (t *total) add(w *row, b backend, happened map[string]int) {
	f := findFault(w.Fault)
	t.Rounds += w.Rounds
	t.Updates += w.Acknowledged
	t.Void += w.Void
	switch {
	case f.serviceFault != nil: // rounds with the fence and without it have the same fault
		key := w.Fault + " " + w.Workload
		happened[key] = max(happened[key], w.Rounds)
	case f.name != controlFault:
		t.Faults += w.Rounds
	}
	not := excluded(f.hazard, b.promises)
	t.Overlaps.add(w.Overlaps, not.holders)
	for _, margin := range w.Margins {
		if margin < 0 {
			t.Early.add(1, not.holders)
		}
	}
	if w.Fence {
		t.Lost.add(w.Lost, not.tokens)
		return
	}
	for name, s := range map[string]*share{controlFault: &t.Control, pauseFault: &t.Pause} {
		if w.Fault == name && w.Workload == counterWorkload {
			s.part += w.Lost
			s.of += w.chances()
		}
	}
}

// findFault returns the fault of that name, or one with the name alone.
func findFault(name string) fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	return fault{name: name}
}
