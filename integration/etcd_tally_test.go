//go:build unix

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally is the outcomes by kind of fault.
type tally map[string][]outcome

var tallying sync.Mutex

func (all tally) add(kind string, outcomes []outcome) {
	tallying.Lock()
	defer tallying.Unlock()
	all[kind] = append(all[kind], outcomes...)
}

func (all tally) sum(cond func(outcome) bool) (n int) {
	for _, outcomes := range all {
		for _, o := range outcomes {
			if cond(o) {
				n++
			}
		}
	}
	return n
}

func (all tally) String() string {
	var b strings.Builder
	var kinds []string
	for kind := range all {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	var every []outcome
	for _, kind := range kinds {
		fmt.Fprintf(&b, "%-28s %v\n", kind, line(all[kind]))
		every = append(every, all[kind]...)
	}
	fmt.Fprintf(&b, "%-28s %v\n", "all", line(every))
	fmt.Fprintf(&b, "%d timers were later than the next holder\n", all.sum(func(o outcome) bool { return o.slow }))
	return b.String()
}

// line sums outcomes up: how many leases were kept and lost, how late the others came, and how early by the usual rule.
func line(outcomes []outcome) string {
	var text []string
	for _, usual := range []bool{false, true} {
		kept := 0
		var late, early []time.Duration
		for _, o := range outcomes {
			switch {
			case o.usual != usual:
			case o.kept:
				kept++
			case o.early > 0:
				early = append(early, o.early)
			default:
				late = append(late, o.late)
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

// spread is the least, the median and the largest.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v/%v/%v", round(all[0]), round(all[len(all)/2]), round(all[len(all)-1]))
}
