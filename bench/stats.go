package main

import (
	"math"
	"slices"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// summary is the median of what rounds have brought, and the bounds between which it lies with a confidence of 95 %. These are
// infinite where there are too few rounds to tell.
type summary struct{ median, low, high float64 }

// summarise leaves out rounds that brought nothing. All is NaN if none is left.
func summarise(values []float64) summary {
	values = slices.DeleteFunc(slices.Sorted(slices.Values(values)), math.IsNaN)
	if len(values) == 0 {
		return summary{math.NaN(), math.NaN(), math.NaN()}
	}
	median, low, high := stats.QuantileCI(len(values), 0.5, 0.95).SampleCI(stats.Sample{Xs: values, Sorted: true})
	return summary{median, low, high}
}

// spread is how far the bounds are away, as a part of the median; infinite where nobody can tell.
func (s summary) spread() float64 {
	return max(s.high-s.median, s.median-s.low) / s.median
}

// quantiles sorts values, and returns the median and the 99th percentile; NaN of none.
func quantiles(values []float64) (p50, p99 float64) {
	slices.Sort(values)
	sample := stats.Sample{Xs: values, Sorted: true}
	return sample.Quantile(0.5), sample.Quantile(0.99)
}

// jain is Jain's index of fairness: 1 when all have got the same, 1/n when one of n has got everything. NaN when nobody
// has got anything.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
