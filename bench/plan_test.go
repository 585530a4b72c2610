package main

import (
	"slices"
	"testing"
	"time"
)

func TestPlanRounds(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name      string
		available time.Duration
		needs     []need
		want      rounds
	}{
		{"as long as the slowest needs", 6600 * ms, []need{{work: 30 * ms}, {work: 300 * ms}}, rounds{11, 300 * ms}},
		{"more rounds if there is time", 12 * time.Second, []need{{work: 300 * ms}, {work: 300 * ms}}, rounds{20, 300 * ms}},
		{"not more than enough", time.Hour, []need{{work: 300 * ms}}, rounds{mostRounds, 300 * ms}},
		{"shorter rounds before fewer", 2200 * ms, []need{{work: 300 * ms}, {work: 300 * ms}}, rounds{11, 100 * ms}},
		{"fewer rounds at last", 700 * ms, []need{{work: 300 * ms}, {work: 300 * ms}}, rounds{7, 50 * ms}},
		{"not shorter than timers are exact", 2200 * ms, []need{{work: ms}}, rounds{mostRounds, shortestRound}},
		{"with what comes besides", 4400 * ms, []need{{300 * ms, 100 * ms}, {300 * ms, 100 * ms}}, rounds{11, 100 * ms}},
	} {
		got, err := planRounds(tc.available, tc.needs)
		if err != nil || got != tc.want {
			t.Errorf("%s: planRounds = %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
	if got, err := planRounds(599*ms, []need{{work: 300 * ms}, {work: 300 * ms}}); err == nil {
		t.Errorf("planRounds = %v for less than %d of the shortest rounds, want an error", got, fewestRounds)
	}
}

// A plan never takes longer than the time that there is.
func TestPlansFit(t *testing.T) {
	for available := 50 * time.Millisecond; available < time.Minute; available = available * 11 / 10 {
		for work := 100 * time.Microsecond; work < 10*time.Second; work *= 2 {
			needs := []need{{work, work / 10}, {work / 3, work / 5}, {work / 2, 0}}
			r, err := planRounds(available, needs)
			if err != nil {
				continue
			}
			if total := time.Duration(r.count) * (3*r.length + work/10 + work/5); total > available || r.count < fewestRounds {
				t.Fatalf("planRounds(%v, %v) = %v, which takes %v", available, needs, r, total)
			}
		}
	}
}

func TestSlowestPeerIsLeftOut(t *testing.T) {
	const ms = time.Millisecond
	needs := []need{{work: 30 * ms}, {work: 90 * ms}, {work: 9000 * ms}, {work: 60 * ms}, {work: 5000 * ms}}
	library := func(i int) bool { return i > 0 }
	r, left, err := planWithout(2*time.Second, needs, library)
	if err != nil || !slices.Equal(left, []int{2, 4}) || r.length > 90*ms {
		t.Errorf("planWithout = %v, %v, %v, want the two slowest left out", r, left, err)
	}
	if _, left, err := planWithout(100*ms, needs, library); err == nil || len(left) != 4 {
		t.Errorf("planWithout leaves out %v and returns %v, want all that may be left out, and an error", left, err)
	}
}

func TestShares(t *testing.T) {
	if got := shareOf(12*time.Second, []float64{1, 2, 3}); got != 2*time.Second {
		t.Errorf("shareOf = %v, want a sixth of 12s", got)
	}
	if got := shareOf(-time.Second, []float64{1, 2}); got != 0 {
		t.Errorf("shareOf = %v when no time is left, want 0", got)
	}
}
