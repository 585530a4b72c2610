package chart

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the chart in testdata again")

// sample has a bar of each kind, and text that XML must escape.
var sample = Chart{
	Title: "Times & places", Unit: "ms", Short: "One is below zero.",
	Groups: []Group{
		{Name: "first", Bars: []Bar{
			{Label: "own", To: 43, Text: "43", Kind: Good},
			{Label: "peer <1>", To: 12.5, Text: "12.5", Kind: Other},
			{Label: "absent", Text: "–"},
		}},
		{Name: "second", Bars: []Bar{{Label: "own", From: -8, To: 20, Text: "-8", Kind: Bad}}},
	},
}

// TestSVG compares a chart with the one in testdata.
func TestSVG(t *testing.T) {
	golden := filepath.Join("testdata", "sample.svg")
	if *update {
		if err := os.WriteFile(golden, []byte(sample.SVG()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	svg := sample.SVG()
	if svg != string(want) {
		t.Errorf("the chart differs from %s; write it again with -update if that is wanted, and look at it", golden)
	}
	if n := strings.Count(svg, `rx="2"`); n != 3 {
		t.Errorf("%d bars, want 3: the one without a value has none", n)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestGroup(t *testing.T) {
	var c Chart
	c.Group("a").Bars = append(c.Group("a").Bars, Bar{Label: "x"})
	c.Group("b")
	c.Group("a").Bars = append(c.Group("a").Bars, Bar{Label: "y"})
	if len(c.Groups) != 2 || len(c.Groups[0].Bars) != 2 {
		t.Errorf("the groups are %+v, want a with two bars, and b", c.Groups)
	}
}

// A folder has the charts of the last call, and keeps what is no chart.
func TestReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "charts")
	for _, name := range []string{"old", "new"} {
		if err := Replace(dir, map[string]string{name + ".svg": name}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "figures.json"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"figures.json", "new.svg"}; !slices.Equal(names, want) {
		t.Errorf("the folder has %v, want %v", names, want)
	}
}

// A scale contains zero and all values, and has a few steps that are round numbers.
func TestScale(t *testing.T) {
	for _, tc := range []struct {
		from, to float64
		want     []float64
	}{
		{0, 43, []float64{0, 10, 20, 30, 40, 50}},
		{-1918, 42, []float64{-2000, -1500, -1000, -500, 0, 500}},
		{523, 6054, []float64{0, 2000, 4000, 6000, 8000}},
		{0, 0, []float64{0, 1, 2, 3, 4, 5}},
		{-5, -1, []float64{-5, -4, -3, -2, -1, 0}},
	} {
		c := Chart{Groups: []Group{{Bars: []Bar{{From: tc.from, To: tc.to}}}}}
		s := c.scale()
		if got := s.ticks(); !slices.Equal(got, tc.want) {
			t.Errorf("from %v to %v: ticks %v, want %v", tc.from, tc.to, got, tc.want)
		}
		if x := s.x(tc.from); x < plotBegin || s.x(tc.to) > plotBegin+plotWidth || s.x(tc.to) < x {
			t.Errorf("from %v to %v: the bar goes from %v to %v", tc.from, tc.to, x, s.x(tc.to))
		}
	}
}
