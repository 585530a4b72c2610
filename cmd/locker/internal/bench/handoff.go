package bench

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// handOff has several Lockers want one lock, and give it back at once.
func (b *bench) handOff(ctx context.Context) error {
	var lockers []locker.Locker
	var recorders []*recorder
	for range b.Contenders {
		l, r, err := b.open(ctx, locker.EventGranted|locker.EventReleased)
		if err != nil {
			b.close(lockers...)
			return err
		}
		lockers, recorders = append(lockers, l), append(recorders, r)
	}
	counts, took, err := b.load(ctx, b.Contenders, func(ctx context.Context, i int, budget *budget) (int, error) {
		return b.cycle(ctx, lockers[i], b.Prefix+"hand-off", budget)
	})
	b.close(lockers...)
	if err != nil {
		return err
	}
	gaps, fair := gapsOf(recorders), jain(counts)
	b.add(Result{Scenario: "hand-off", Figures: slices.Concat([]Figure{
		{"contenders", float64(b.Contenders), ""},
		{"grants", float64(total(counts)) / took.Seconds(), "1/s"},
	}, times("gap", gaps), []Figure{{"Jain's index", fair, ""}})}, b.unfair(fair, counts)...)
	return nil
}

// gapsOf returns the times from the call of Release to the return of the next holder's Acquire,
// where the next holder has waited. The tokens say who is the next.
func gapsOf(recorders []*recorder) (gaps samples[time.Duration]) {
	var grants []moment
	released := make(map[locker.Token]time.Time)
	for _, r := range recorders {
		o := r.take()
		grants = append(grants, o.grants...)
		for _, m := range o.releases {
			released[m.token] = m.at
		}
	}
	slices.SortFunc(grants, func(a, b moment) int { return cmp.Compare(a.token, b.token) })
	for i := 1; i < len(grants); i++ {
		at, known := released[grants[i-1].token]
		if known && grants[i].waited.Before(at) {
			gaps = append(gaps, grants[i].at.Sub(at))
		}
	}
	slices.Sort(gaps)
	return gaps
}
