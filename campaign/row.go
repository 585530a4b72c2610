package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// row is what a run found for one backend, fault and library, with the fence or without. Times are
// in milliseconds.
type row struct {
	Backend  string `json:"backend"`
	Fault    string `json:"fault"`
	Workload string `json:"workload"`
	Library  string `json:"library"`
	Fence    bool   `json:"fence"`

	Rounds int            `json:"rounds"` // that aren't void
	Void   int            `json:"void"`   // that prove nothing
	Why    []string       `json:"why_void,omitempty"`
	Doubts map[string]int `json:"doubts,omitempty"` // void rounds, by what they showed while the machine was too busy

	Acknowledged int `json:"acknowledged"` // updates
	Lost         int `json:"lost"`         // as the workload counts it
	Refused      int `json:"refused"`      // writes and reads, by the fence

	Overlaps       int      `json:"overlaps"`           // rounds in which two holders both believed
	LongestOverlap float64  `json:"longest_overlap_ms"` // in one round
	OutOfOrder     int      `json:"tokens_out_of_order"`
	Reversed       int      `json:"tokens_reversed"`  // leases with a smaller token than an earlier holder
	Returned       int      `json:"returned"`         // leases that came back after their loss
	Causes         []string `json:"causes,omitempty"` // of losses where a library that renews loses nothing

	Margin *spread `json:"margin_ms,omitempty"` // from the holder's knowledge to the rival's grant
	Grant  *spread `json:"grant_ms,omitempty"`  // from the fault to the rival's grant
	Bound  float64 `json:"bound_ms,omitempty"`  // at most, for the grant

	Late       int `json:"late"`        // grants, more than a second after the bound
	NotGranted int `json:"not_granted"` // rivals that were not granted the lock in their time
	Failed     int `json:"failed"`      // rounds in which the lock was not available after the fault

	Fails   []string `json:"fails,omitempty"`   // the rules that the row breaks
	Excused []string `json:"excused,omitempty"` // the same, where the guarantees exclude it, with the reason

	Margins []float64 `json:"margins_ms,omitempty"` // of all rounds
	Grants  []float64 `json:"grants_ms,omitempty"`
}

// spread is the least, the median and the greatest of some values.
type spread struct {
	Least    float64 `json:"least"`
	Median   float64 `json:"median"`
	Greatest float64 `json:"greatest"`
}

// mostReasons is how many different reasons a row has.
const mostReasons = 3

// longestReason is how much of a reason is shown, in characters. What follows is mostly
// addresses.
const longestReason = 100

func (r *row) void(why string, doubts ...string) {
	r.Void++
	r.Why = addReason(r.Why, why)
	for _, d := range doubts {
		if r.Doubts == nil {
			r.Doubts = make(map[string]int)
		}
		r.Doubts[d]++
	}
}

// whyVoid are the reasons of the void rounds, and what these showed.
func (r *row) whyVoid() string {
	var why []string
	for _, w := range r.Why {
		if text := []rune(w); len(text) > longestReason {
			w = string(text[:longestReason]) + " …"
		}
		why = append(why, w)
	}
	text, sep := strings.Join(why, "; "), "; they showed "
	for _, d := range slices.Sorted(maps.Keys(r.Doubts)) {
		text += fmt.Sprintf("%s%s %d×", sep, d, r.Doubts[d])
		sep = ", "
	}
	return text
}

func addReason(all []string, reason string) []string {
	if reason == "" || len(all) == mostReasons || slices.Contains(all, reason) {
		return all
	}
	return append(all, reason)
}

// add counts a match.
func (r *row) add(f findings, bound time.Duration) {
	r.Rounds++
	r.Acknowledged += f.Acknowledged
	r.Lost += f.Lost
	r.Refused += f.Refused
	r.LongestOverlap = max(r.LongestOverlap, ms(f.Overlap))
	r.OutOfOrder += f.OutOfOrder
	r.Reversed += f.Reversed
	r.Returned += f.Returned
	if f.Margin != nil {
		r.Margins = append(r.Margins, ms(*f.Margin))
	}
	if f.Grant != nil {
		r.Grants, r.Bound = append(r.Grants, ms(*f.Grant)), ms(bound)
	}
	for _, c := range []struct {
		n   *int
		yes bool
	}{{&r.Overlaps, f.Overlap > 0}, {&r.Late, f.Late}, {&r.NotGranted, f.NotGranted}, {&r.Failed, f.Failed}} {
		if c.yes {
			*c.n++
		}
	}
	r.Margin, r.Grant = spreadOf(r.Margins), spreadOf(r.Grants)
}

// chances is how much could be lost.
func (r *row) chances() int {
	if w, err := findWorkload(r.Workload); err == nil && w.perRound {
		return r.Rounds
	}
	return r.Acknowledged
}

func spreadOf(values []float64) *spread {
	if len(values) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(values))
	return &spread{s[0], s[len(s)/2], s[len(s)-1]}
}

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
