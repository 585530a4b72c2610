package main

import (
	"math"
	"slices"
	"time"
)

// percentile is the value that p percent of the values don't exceed (the nearest rank), NaN of none. It sorts them.
func percentile[T ~int64 | ~float64](values []T, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return float64(values[max(rank, 1)-1])
}

// median is the middle value, or the mean of the two in the middle. NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
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

func micros(d float64) float64 { return d / float64(time.Microsecond) }
