package main

import (
	"reflect"
	"testing"
)

// What is lost, or granted too early, is counted apart where the guarantees exclude it; a fault of
// the servers is counted once for the rounds with the fence and without it.
func TestTotals(t *testing.T) {
	r := &result{Rows: []*row{
		{Backend: "redis", Fault: "nothing", Workload: "counter", Library: "locker", Rounds: 2, Acknowledged: 28},
		{Backend: "redis", Fault: "nothing", Workload: "register", Library: "locker", Rounds: 1, Acknowledged: 14},
		{Backend: "redis", Fault: "pause", Workload: "counter", Library: "locker", Rounds: 3, Acknowledged: 42, Lost: 18, Margins: []float64{1, -1, 2}},
		{Backend: "redis", Fault: "pause", Workload: "counter", Library: "locker", Fence: true, Rounds: 3, Acknowledged: 39},
		{Backend: "redis", Fault: "pause", Workload: "counter", Library: "redsync", Rounds: 3, Acknowledged: 39, Overlaps: 3},
		{Backend: "redis", Fault: "crash", Workload: "counter", Library: "locker", Rounds: 4, Acknowledged: 50, Overlaps: 2, Margins: []float64{-3}},
		{Backend: "redis", Fault: "crash", Workload: "counter", Library: "locker", Fence: true, Rounds: 5, Void: 2, Acknowledged: 60, Lost: 1},
	}}
	want := []total{{
		Backend: "redis", Rounds: 18, Faults: 6 + 5, Updates: 28 + 14 + 42 + 39 + 50 + 60,
		Lost: tally{promised: 1}, Early: tally{promised: 1, excluded: 1}, Overlaps: tally{excluded: 2},
		Control: share{0, 28}, Pause: share{18, 42}, Void: 2,
	}}
	got := totals(r)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	for text, want := range map[string]string{
		got[0].Early.String(): "1, and 1 where it isn't promised",
		got[0].Lost.String():  "1",
		got[0].Pause.String(): "18 of 42",
		share{}.String():      "–",
	} {
		if text != want {
			t.Errorf("text %q, want %q", text, want)
		}
	}
}
