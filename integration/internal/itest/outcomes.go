//go:build unix

package itest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tally contains the outcomes by kind of fault.
type Tally map[string][]Outcome

var tallying sync.Mutex

func (all Tally) Add(kind string, outcomes []Outcome) {
	tallying.Lock()
	defer tallying.Unlock()
	all[kind] = append(all[kind], outcomes...)
}

func (all Tally) Sum(cond func(Outcome) bool) (n int) {
	for _, outcomes := range all {
		for _, o := range outcomes {
			if cond(o) {
				n++
			}
		}
	}
	return n
}

func (all Tally) String() string {
	var b strings.Builder
	var kinds []string
	for kind := range all {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	var every []Outcome
	for _, kind := range kinds {
		fmt.Fprintf(&b, "%-28s %v\n", kind, line(all[kind]))
		every = append(every, all[kind]...)
	}
	fmt.Fprintf(&b, "%-28s %v\n", "all", line(every))
	fmt.Fprintf(&b, "%d timers were later than the next holder\n", all.Sum(func(o Outcome) bool { return o.Slow }))
	return b.String()
}

// line summarises outcomes: how many leases were kept and lost, how late the next holders came, and
// how early they came by the usual rule.
func line(outcomes []Outcome) string {
	var text []string
	for _, usual := range []bool{false, true} {
		kept := 0
		var late, early []time.Duration
		for _, o := range outcomes {
			switch {
			case o.Usual != usual:
			case o.Kept:
				kept++
			case o.Early > 0:
				early = append(early, o.Early)
			default:
				late = append(late, o.Late)
			}
		}
		who := "leases"
		if usual {
			who = "usual rule"
		}
		text = append(text, fmt.Sprintf("%s: %d kept, %d lost, another came later by %s; %d early, by %s",
			who, kept, len(late)+len(early), spread(late), len(early), spread(early)))
	}
	return strings.Join(text, " | ")
}

// spread returns the smallest, the median and the largest duration.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v/%v/%v", round(all[0]), round(all[len(all)/2]), round(all[len(all)-1]))
}

// Outcome is the result of one fault for one holder.
type Outcome struct {
	Usual bool          // it goes by the usual rule
	Kept  bool          // its lease was held until the end
	Late  time.Duration // how much later than the holder knew of its loss another one had the lock
	Early time.Duration // how much earlier another one had the lock
	Slow  bool          // Err showed the loss to the holder, and the timer that closes Done was late
}
