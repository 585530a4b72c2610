package main

import (
	"math"
	"testing"
)

func TestSummarise(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tc := range []struct {
		values []float64
		want   summary
	}{
		{[]float64{5}, summary{5, -inf, inf}},
		{[]float64{nan, 9, 1, 5}, summary{5, -inf, inf}},
		{[]float64{9, 1, nan, 5, 6}, summary{5.5, -inf, inf}},
		{[]float64{7, 6, 5, 4, 3, 2, 1}, summary{4, 1, 7}},
	} {
		if got := summarise(tc.values); got != tc.want {
			t.Errorf("summarise(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
	if got := summarise([]float64{nan}); !math.IsNaN(got.median) {
		t.Errorf("summarise of nothing = %v, want NaN", got)
	}
	if got := (summary{4, 1, 5}).spread(); got != 0.75 {
		t.Errorf("spread = %v, want 0.75", got)
	}
}

func TestFiguresThatTell(t *testing.T) {
	for _, tc := range []struct {
		s              summary
		tells, asRatio bool
	}{
		{summary{1, 0.9, 1.1}, true, true},
		{summary{1, 0.8, 1.1}, false, false},
		{summary{2.7, 2, 3.4}, false, true},
		{summary{2.7, 1.5, 3.4}, false, false},
		{summary{0.4, 0.3, 0.5}, false, true},
		{summary{0.8, 0.6, 0.9}, false, false},
		{summary{0, 0, 0}, true, true},
		{summary{5, math.Inf(-1), math.Inf(1)}, false, false},
		{summary{math.NaN(), math.NaN(), math.NaN()}, false, false},
	} {
		if tells, asRatio := tc.s.tells(), tc.s.ratioTells(); tells != tc.tells || asRatio != tc.asRatio {
			t.Errorf("%v tells: %v, and as a ratio %v, want %v and %v", [3]float64{tc.s.median, tc.s.low, tc.s.high},
				tells, asRatio, tc.tells, tc.asRatio)
		}
	}
}

func TestQuantiles(t *testing.T) {
	thousand := make([]float64, 1001)
	for i := range thousand {
		thousand[i] = float64(1000 - i)
	}
	if p50, p99 := quantiles(thousand); p50 != 500 || math.Abs(p99-990) > 1 {
		t.Errorf("quantiles of 0 to 1000 = %v, %v, want 500 and about 990", p50, p99)
	}
	if p50, p99 := quantiles(nil); !math.IsNaN(p50) || !math.IsNaN(p99) {
		t.Errorf("quantiles of nothing = %v, %v, want NaN", p50, p99)
	}
}

func TestJain(t *testing.T) {
	for _, tc := range []struct {
		shares []int
		want   float64
	}{
		{[]int{3, 3, 3}, 1},
		{[]int{8, 0, 0, 0}, 0.25},
		{[]int{1, 3}, 0.8},
	} {
		if got := jain(tc.shares); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", tc.shares, got, tc.want)
		}
	}
}
