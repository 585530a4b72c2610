package otellocker

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencedlock/locker"
)

// The buckets are advice: a View of the program can change them.
var (
	acquireBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900}
	requestBuckets = acquireBuckets[:14] // up to 10 s
	holdBuckets    = []float64{0.001, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	slackBuckets   = []float64{0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 1}
)

// instruments are the metrics that are recorded with each event.
type instruments struct {
	sets  *sets
	begun map[string]bool // groups whose counters exist

	acquireDuration, leaseDuration, renewDuration, renewSlack, releaseDuration metric.Float64Histogram
	requeued, abandoned, lost                                                  metric.Int64Counter
}

func newInstruments(meter metric.Meter, sets *sets) (*instruments, error) {
	i := &instruments{sets: sets, begun: make(map[string]bool)}
	var errs []error
	histogram := func(to *metric.Float64Histogram, name, unit, text string, buckets []float64) {
		h, err := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		*to, errs = h, append(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, text string) {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		*to, errs = c, append(errs, err)
	}
	histogram(&i.acquireDuration, "locker.acquire.duration", "s", "How long calls of Acquire took, by what became of them.", acquireBuckets)
	counter(&i.requeued, "locker.acquire.requeued", "{acquisition}", "Acquisitions that were replaced while their caller waited.")
	counter(&i.abandoned, "locker.acquire.abandoned", "{lease}", "Grants that came after the caller had given up.")
	histogram(&i.leaseDuration, "locker.lease.duration", "s", "How long leases were held, by how they ended.", holdBuckets)
	counter(&i.lost, "locker.lease.lost", "{lease}", "Leases that were lost, by cause.")
	histogram(&i.renewDuration, "locker.renew.duration", "s", "How long the requests of renewals took.", requestBuckets)
	histogram(&i.renewSlack, "locker.renew.slack", "1", "Share of a lease's time that was left when its renewal was confirmed.", slackBuckets)
	histogram(&i.releaseDuration, "locker.release.duration", "s", "Time from the end of a lease or acquisition until its removal was confirmed.", requestBuckets)
	return i, errors.Join(errs...)
}

// causes are what locker.LossOf may return.
var causes = []string{
	locker.LossServiceFailed, locker.LossServiceSilent, locker.LossProcessLate, locker.LossUnproven,
	locker.LossNotRenewed, locker.LossRevoked, locker.LossBroken, locker.LossMaxHold,
}

// begin makes the counters of a group begin with zero. A counter that appears with the first loss
// doesn't increase, as Prometheus sees it, and no alert would be raised.
func (i *instruments) begin(ctx context.Context, group string) {
	i.begun[group] = true
	options := i.sets.get(setKey{group: group}).add
	i.requeued.Add(ctx, 0, options...)
	i.abandoned.Add(ctx, 0, options...)
	for _, cause := range causes {
		i.lost.Add(ctx, 0, i.sets.get(setKey{group: group, cause: cause}).add...)
	}
}

// record records what an event says.
func (i *instruments) record(ctx context.Context, group string, a *acquisition, e *locker.Event) {
	if !i.begun[group] {
		i.begin(ctx, group)
	}
	k := setKey{group: group}
	switch e.Kind {
	case locker.EventGranted:
		k.outcome, k.contended = locker.OutcomeGranted, yesOrNo(e.Contended)
		i.acquireDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
	case locker.EventRefused:
		k.outcome = locker.OutcomeOf(e.Cause)
		if k.outcome == locker.OutcomeError {
			k.errorType = errorType(e.Cause)
		}
		i.acquireDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
	case locker.EventRequeued:
		i.requeued.Add(ctx, 1, i.sets.get(k).add...)
	case locker.EventAbandoned:
		i.abandoned.Add(ctx, 1, i.sets.get(k).add...)
	case locker.EventRenewed:
		k.outcome = "ok"
		i.renewDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
		if s, ok := slack(a, e); ok {
			i.renewSlack.Record(ctx, s, i.sets.get(setKey{group: group}).record...)
		}
	case locker.EventRenewalFailed:
		k.outcome, k.errorType = "error", errorType(e.Cause)
		i.renewDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
	case locker.EventLost:
		i.lost.Add(ctx, 1, i.sets.get(setKey{group: group, cause: locker.LossOf(e.Cause)}).add...)
		k.end = "lost"
		i.leaseDuration.Record(ctx, e.Held.Seconds(), i.sets.get(k).record...)
	case locker.EventReleased:
		i.leaseDuration.Record(ctx, e.Held.Seconds(), i.sets.get(setKey{group: group, end: "released"}).record...)
		k.outcome = "confirmed"
		if !a.removing.IsZero() {
			k.outcome = "late"
		}
		i.releaseDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
	case locker.EventRemoved:
		k.outcome = "late"
		i.releaseDuration.Record(ctx, e.Took.Seconds(), i.sets.get(k).record...)
	}
}

// slack is which share of a lease's time was left when a renewal was confirmed: 1 just after a
// renewal, 0 at the deadline. ok is false when no time ends the lease, and when the deadline is the
// end of the longest hold, which no renewal moves.
func slack(a *acquisition, e *locker.Event) (share float64, ok bool) {
	const near = 10 * time.Millisecond // two clocks are compared
	if e.TTL == 0 {
		return 0, false
	}
	if a.maxHold > 0 && e.Time.Add(e.Left).After(a.granted.Add(a.maxHold-near)) {
		return 0, false
	}
	valid := e.TTL - e.TTL/100 - 2*time.Millisecond // the TTL without the allowance for clocks
	return e.Left.Seconds() / valid.Seconds(), true
}

func yesOrNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
