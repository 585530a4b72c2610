package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// summary is the median of the values of several rounds, and its bounds at 95 % confidence. The
// bounds are infinite if there are too few rounds for that.
type summary struct{ median, low, high float64 }

// summarise ignores rounds without a value. All of the summary is NaN if no value is left.
func summarise(values []float64) summary {
	values = slices.DeleteFunc(slices.Sorted(slices.Values(values)), math.IsNaN)
	if len(values) == 0 {
		return summary{math.NaN(), math.NaN(), math.NaN()}
	}
	median, low, high := stats.QuantileCI(len(values), 0.5, 0.95).SampleCI(stats.Sample{Xs: values, Sorted: true})
	return summary{median, low, high}
}

// spread is the distance from the median to the farther bound, as a fraction of the median;
// infinite if the bounds are.
func (s summary) spread() float64 {
	if s.low == s.high {
		return 0
	}
	return max(s.high-s.median, s.median-s.low) / s.median
}

// closeSpread is the spread with which a figure says something about every question.
const closeSpread = 0.15

// tells reports whether the bounds are close enough for a figure: within closeSpread.
func (s summary) tells() bool { return s.spread() <= closeSpread }

// ratioTells is like tells, for a ratio. The message of a ratio is on which side of 1 it is, and how
// far: so the bounds may also be as wide as half of that distance. 2.7 may be uncertain by 31 %.
func (s summary) ratioTells() bool {
	return s.tells() || s.spread() <= math.Abs(s.median-1)/max(s.median, 1)/2
}

// String returns how far the bounds are away.
func (s summary) String() string {
	if math.IsInf(s.spread(), 0) || math.IsNaN(s.spread()) {
		return "too few rounds"
	}
	return fmt.Sprintf("± %.0f %%", 100*s.spread())
}

// quantiles sorts values, and returns the median and the 99th percentile; NaN if there are no
// values.
func quantiles(values []float64) (p50, p99 float64) {
	slices.Sort(values)
	sample := stats.Sample{Xs: values, Sorted: true}
	return sample.Quantile(0.5), sample.Quantile(0.99)
}

// jain is Jain's index of fairness: 1 if all shares are the same, 1/n if one of n has everything,
// NaN if all shares are 0.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
