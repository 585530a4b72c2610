package main

import (
	"fmt"
	"slices"
	"time"
)

// The time of a run is limited, so it is divided: each backend has its share, each part of a
// backend's measurement has a share of that by its weight, and each row is measured in as many
// rounds as fit into its share.

const (
	wantedOperations = 30 // of each goroutine in a round
	fewestOperations = 5  // with fewer, the goroutines that wait for their first answer weigh too much
	wantedRounds     = 11
	fewestRounds     = 6 // with fewer, a median has no bounds at 95 % confidence
	mostRounds       = 31
	shortestRound    = 20 * time.Millisecond
)

// need is what one peer needs in a round.
type need struct {
	work     time.Duration // for wantedOperations of each goroutine
	overhead time.Duration // besides the round itself: to count requests, to finish what was begun
}

// rounds says in how many rounds a row is measured, and how long each peer works in a round.
type rounds struct {
	count  int
	length time.Duration
}

// planRounds divides the time of a row. All peers work for the same time in a round: as long as the
// slowest needs for wantedOperations. If the time is too short for that, the rounds get shorter,
// then fewer. planRounds returns an error if not even the fewest and shortest rounds fit.
func planRounds(available time.Duration, needs []need) (rounds, error) {
	var work, overhead time.Duration
	for _, n := range needs {
		work = max(work, n.work)
		overhead += n.overhead
	}
	round := func(length time.Duration) time.Duration {
		return time.Duration(len(needs))*length + overhead
	}
	wanted := max(shortestRound, work)
	shortest := max(shortestRound, work*fewestOperations/wantedOperations)
	fitting := (available/wantedRounds - overhead) / time.Duration(len(needs)) // the length of wantedRounds
	switch {
	case fitting >= wanted:
		return rounds{min(mostRounds, int(available/round(wanted))), wanted}, nil
	case fitting >= shortest:
		return rounds{wantedRounds, fitting}, nil
	case fewestRounds*round(shortest) <= available:
		return rounds{int(available / round(shortest)), shortest}, nil
	}
	return rounds{}, noTime(fewestRounds, fewestRounds*round(shortest), available)
}

// noTime is the error of a row that doesn't fit into its time.
func noTime(count int, needed, available time.Duration) error {
	return fmt.Errorf("%d rounds take %s, and there is time for %s", count, short(needed), short(max(available, 0)))
}

// planWithout is like planRounds. If the time is too short, it leaves out the slowest peer that
// mayLeave, as often as necessary. It returns the positions of those left out.
func planWithout(available time.Duration, needs []need, mayLeave func(i int) bool) (r rounds, left []int, err error) {
	var staying []int
	for i := range needs {
		staying = append(staying, i)
	}
	for {
		var rest []need
		slowest := -1 // as an index of staying
		for at, i := range staying {
			rest = append(rest, needs[i])
			if mayLeave(i) && (slowest < 0 || needs[i].work > needs[staying[slowest]].work) {
				slowest = at
			}
		}
		r, err = planRounds(available, rest)
		if err == nil || slowest < 0 {
			return r, left, err
		}
		left = append(left, staying[slowest])
		staying = slices.Delete(staying, slowest, slowest+1)
	}
}

// shareOf returns the first part's share of the time that is left, by the weights of all parts that
// are left.
func shareOf(left time.Duration, weights []float64) time.Duration {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	return time.Duration(float64(max(left, 0)) * weights[0] / sum)
}

// short formats d with two or three digits.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
		if d >= unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.String()
}
