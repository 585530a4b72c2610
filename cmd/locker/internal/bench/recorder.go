package bench

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// recorder collects what the events of one Locker say.
type recorder struct {
	waiting chan struct{} // gets a value when a call begins to wait

	mu sync.Mutex
	observed
}

// observed is what a recorder has collected.
type observed struct {
	ttl      time.Duration
	acquire  samples[time.Duration]
	release  samples[time.Duration]
	slack    samples[float64] // which share of a lease's time was left at each renewal
	failed   error            // of the last renewal that failed
	grants   []moment
	releases []moment
}

// moment is when a lease began, or its release did.
type moment struct {
	token  locker.Token
	at     time.Time
	waited time.Time // of a grant: when Acquire was called
}

// observe attaches a recorder to l.
func observe(l locker.Locker, kinds locker.EventKind) (*recorder, error) {
	r := &recorder{waiting: make(chan struct{}, 1)}
	_, err := locker.Observe(l, r, kinds)
	return r, err
}

func (r *recorder) Observe(_ context.Context, e locker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case locker.EventWaiting:
		select {
		case r.waiting <- struct{}{}:
		default:
		}
	case locker.EventGranted:
		r.ttl = e.TTL
		r.acquire = append(r.acquire, e.Took)
		r.grants = append(r.grants, moment{e.Token, e.Time, e.Time.Add(-e.Took)})
	case locker.EventReleased:
		r.release = append(r.release, e.Took)
		r.releases = append(r.releases, moment{token: e.Token, at: e.Time.Add(-e.Took)})
	case locker.EventRenewed:
		if valid := e.TTL - e.TTL/100 - 2*time.Millisecond; e.TTL > 0 { // the TTL without the allowance for clocks
			r.slack = append(r.slack, e.Left.Seconds()/valid.Seconds())
		}
	case locker.EventRenewalFailed:
		r.failed = e.Cause
	}
}

// take returns what was collected, with samples in order. It is called when the Locker is closed: what
// is delivered still later doesn't count.
func (r *recorder) take() observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.observed
	r.observed = observed{}
	slices.Sort(o.acquire)
	slices.Sort(o.release)
	slices.Sort(o.slack)
	return o
}

// samples are values of one kind, in order.
type samples[T time.Duration | float64] []T

// quantile returns the smallest sample that at least the share q of all don't exceed; 0 of none.
func (s samples[T]) quantile(q float64) T {
	if len(s) == 0 {
		return 0
	}
	return s[max(int(math.Ceil(q*float64(len(s))))-1, 0)]
}

// times are three figures of times: the median, which has a name, the 99th percentile, and the
// largest.
func times(name string, s samples[time.Duration]) []Figure {
	return []Figure{span(name+" p50", s.quantile(.5)), span(name+" p99", s.quantile(.99)), span(name+" max", s.quantile(1))}
}

// jain is Jain's index of fairness: 1 when all have the same, 1/n when one of n has everything.
func jain(counts []int) float64 {
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}
