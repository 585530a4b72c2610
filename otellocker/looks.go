package otellocker

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencedlock/locker"
)

// looks are the metrics of the present state: they come from a look at the locker, when a reader
// collects them, and are right whatever events were dropped.
type looks struct {
	l      locker.Locker
	groups *groups
	sets   *sets

	held, waiting, kept, removing                         metric.Int64ObservableUpDownCounter
	oldestHeld, oldestWaiting, oldestKept, oldestRemoving metric.Float64ObservableGauge
	dropped                                               metric.Int64ObservableCounter
}

// register makes the instruments. look is called when they are collected.
func (k *looks) register(meter metric.Meter) (unregister func(), err error) {
	var errs []error
	var all []metric.Observable
	count := func(to *metric.Int64ObservableUpDownCounter, name, unit, text string) {
		c, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		*to, all, errs = c, append(all, c), append(errs, err)
	}
	oldest := func(to *metric.Float64ObservableGauge, name, text string) {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
		*to, all, errs = g, append(all, g), append(errs, err)
	}
	count(&k.waiting, "locker.acquire.waiting", "{acquisition}", "Calls of Acquire under way.")
	oldest(&k.oldestWaiting, "locker.acquire.oldest_wait", "How long the oldest call of Acquire has been under way.")
	count(&k.held, "locker.lease.active", "{lease}", "Leases that are held.")
	oldest(&k.oldestHeld, "locker.lease.oldest", "How long the oldest lease has been held.")
	count(&k.kept, "locker.lease.kept", "{lease}", "Leases that were released, and whose minimum hold isn't over.")
	oldest(&k.oldestKept, "locker.lease.oldest_kept", "How long ago the oldest of the kept leases was released.")
	count(&k.removing, "locker.removal.pending", "{acquisition}", "Leases and acquisitions that are over, and whose removal isn't confirmed.")
	oldest(&k.oldestRemoving, "locker.removal.oldest", "For how long the oldest removal has been pending.")
	dropped, err := meter.Int64ObservableCounter("locker.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("Events that no observer got, because too many waited."))
	k.dropped = dropped
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(k.look, append(all, dropped)...)
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// look is called by readers, also by several at the same time.
func (k *looks) look(_ context.Context, to metric.Observer) error {
	stats, ok := locker.StatsOf(k.l)
	if !ok {
		return nil
	}
	to.ObserveInt64(k.dropped, int64(stats.EventsDropped), k.sets.get(setKey{}).observe...)
	if k.groups.of == nil {
		k.observe(to, "", &stats)
		return nil
	}
	for group, s := range k.byGroup() {
		k.observe(to, group, s)
	}
	return nil
}

// byGroup is the state of each group that was ever seen.
func (k *looks) byGroup() map[string]*locker.Stats {
	list, _ := locker.Leases(k.l)
	now := time.Now()
	byGroup := make(map[string]*locker.Stats)
	for _, info := range list {
		group := k.groups.group(info.Name)
		s := byGroup[group]
		if s == nil {
			s = new(locker.Stats)
			byGroup[group] = s
		}
		lasts := now.Sub(info.Since)
		switch info.State {
		case locker.StateHeld:
			s.Held, s.OldestHeld = s.Held+1, max(s.OldestHeld, lasts)
		case locker.StateWaiting:
			s.Waiting, s.OldestWaiting = s.Waiting+1, max(s.OldestWaiting, lasts)
		case locker.StateKept:
			s.Kept, s.OldestKept = s.Kept+1, max(s.OldestKept, lasts)
		case locker.StateRemoving:
			s.Removing, s.OldestRemoving = s.Removing+1, max(s.OldestRemoving, lasts)
		}
	}
	for _, group := range k.groups.all() {
		if byGroup[group] == nil {
			byGroup[group] = new(locker.Stats) // it shows zero, and not its last value
		}
	}
	return byGroup
}

func (k *looks) observe(to metric.Observer, group string, s *locker.Stats) {
	options := k.sets.get(setKey{group: group}).observe
	to.ObserveInt64(k.held, int64(s.Held), options...)
	to.ObserveInt64(k.waiting, int64(s.Waiting), options...)
	to.ObserveInt64(k.kept, int64(s.Kept), options...)
	to.ObserveInt64(k.removing, int64(s.Removing), options...)
	to.ObserveFloat64(k.oldestHeld, s.OldestHeld.Seconds(), options...)
	to.ObserveFloat64(k.oldestWaiting, s.OldestWaiting.Seconds(), options...)
	to.ObserveFloat64(k.oldestKept, s.OldestKept.Seconds(), options...)
	to.ObserveFloat64(k.oldestRemoving, s.OldestRemoving.Seconds(), options...)
}
