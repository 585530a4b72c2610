package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

const (
	slackBad  = .3  // a renewal has hung already, and the next one that does loses leases
	slackLow  = .45 // there is time for one renewal that hangs
	slackSlow = .6  // a healthy service leaves .65 and more

	unevenRatio = 20                   // p99 of acquisitions, as a multiple of p50
	unevenLeast = 5 * time.Millisecond // a p99 below is nobody's problem

	fairLeast = .9 // Jain's index
)

// health says what the leases that were held have seen.
func (b *bench) health(o observed, s locker.Stats, leases int, missing error) (v []Verdict) {
	if missing != nil {
		v = append(v, note("%d of %d leases could be acquired: %v", leases, b.Leases, missing))
	}
	if n := sum(s.Lost); n > 0 {
		v = append(v, bad("%d of %d leases were lost (%s): %s", n, leases, causes(s.Lost), b.longer(4)))
	}
	if s.RenewalsFailed > 0 {
		v = append(v, note("%d renewals failed, the last one with: %v", s.RenewalsFailed, o.failed))
	}
	if b.ttl == 0 {
		return append(v, Verdict{Good, "leases never end by time here, so there is no slack"})
	}
	switch p1 := o.slack.quantile(.01); {
	case len(o.slack) == 0:
		v = append(v, bad("no renewal was confirmed: %s", b.longer(4)))
	case p1 < slackBad:
		v = append(v, bad("slack p1 %.2f: a renewal that hangs loses leases; %s", p1, b.longer(4)))
	case p1 < slackSlow && p1 >= slackLow:
		v = append(v, note("slack p1 %.2f: renewals are slow, a healthy service leaves 0.65 and more; %s", p1, b.longer(2)))
	case p1 < slackLow:
		v = append(v, note("slack p1 %.2f: one more renewal that hangs loses leases; %s", p1, b.longer(2)))
	default:
		v = append(v, Verdict{Good, fmt.Sprintf("slack p1 %.2f: renewals come in time", p1)})
	}
	return v
}

// longer says what helps when renewals are late.
func (b *bench) longer(factor time.Duration) string {
	if b.ttl == 0 {
		return "find out why"
	}
	return fmt.Sprintf("use a TTL of %v or find what delays renewals", short(factor*b.ttl))
}

// causes are the classes of losses, with their numbers.
func causes(lost map[string]uint64) string {
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(lost)) {
		parts = append(parts, fmt.Sprintf("%s %d", cause, lost[cause]))
	}
	return strings.Join(parts, ", ")
}

// uneven says if some acquisitions take much longer than most.
func uneven(scenario string, acquire samples[time.Duration]) []Verdict {
	p50, p99 := acquire.quantile(.5), acquire.quantile(.99)
	if p50 == 0 || p99 < unevenLeast || p99 < unevenRatio*p50 {
		return nil
	}
	return []Verdict{note("%s: p99 of acquire is %.0f × p50: now and then a request waits; look at the service's disks and pauses, the network, and the CPUs here",
		scenario, float64(p99)/float64(p50))}
}

// unfair says if some contenders got the lock much more often than others.
func (b *bench) unfair(index float64, counts []int) []Verdict {
	if index >= fairLeast || index == 0 {
		return nil
	}
	text := "this backend promises an order, so look at the network of those that got less"
	if b.guarantees.Order == locker.OrderNone {
		text = "this backend promises no order; take one that does, if some may not wait for long"
	}
	return []Verdict{note("hand-off: Jain's index %.2f, from %d to %d grants for each contender: %s",
		index, slices.Min(counts), slices.Max(counts), text)}
}

// lookVerdict says if the locks can't be listed.
func (b *bench) lookVerdict(err error) []Verdict {
	if err == nil {
		return nil
	}
	return []Verdict{note("the locks couldn't be listed: %v; without that locker ls shows nothing", err)}
}
