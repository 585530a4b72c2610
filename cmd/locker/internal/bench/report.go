package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Report is what was measured. Its names don't change.
type Report struct {
	Backend    string    `json:"backend"`
	Machine    string    `json:"machine"` // of the client
	TTL        float64   `json:"ttl_s"`   // in force; 0: leases never end by time
	Leases     int       `json:"leases"`
	Goroutines int       `json:"goroutines"`
	Contenders int       `json:"contenders"`
	For        float64   `json:"for_s"`
	Results    []Result  `json:"results"`
	Verdicts   []Verdict `json:"verdicts"`
}

// Result is what was measured in one scenario.
type Result struct {
	Scenario string   `json:"scenario"`
	Skipped  string   `json:"skipped,omitempty"` // why nothing was measured
	Figures  []Figure `json:"figures"`
}

// Figure is a number with its unit: "s", "1/s", "B" or "" for a pure number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func span(name string, d time.Duration) Figure { return Figure{name, inSeconds(d), "s"} }

// inSeconds is d without the errors of a division.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e9) / 1e9 }

// Level says how bad something is.
type Level string

// The levels.
const (
	Good Level = "good" // nothing is to be done
	Note Level = "note" // look at it
	Bad  Level = "bad"  // leases were lost, or soon will be
)

// Verdict is what the figures mean, and what to do.
type Verdict struct {
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

func note(format string, args ...any) Verdict { return Verdict{Note, fmt.Sprintf(format, args...)} }
func bad(format string, args ...any) Verdict  { return Verdict{Bad, fmt.Sprintf(format, args...)} }

// Bad reports whether the service isn't fit.
func (r Report) Bad() bool {
	for _, v := range r.Verdicts {
		if v.Level == Bad {
			return true
		}
	}
	return false
}

// Head is what was asked for, in words, with how long it takes about.
func (r Report) Head() string {
	ttl := "leases never end by time"
	takes := 3*seconds(r.For) + seconds(r.For)
	if r.TTL > 0 {
		ttl = "TTL " + short(seconds(r.TTL))
		takes = 3*seconds(r.For) + heldFor(seconds(r.TTL), 0) + seconds(r.TTL)
	}
	return fmt.Sprintf("locker bench on %s, %s; %s; about %v\n", r.Backend, ttl, r.Machine, takes.Round(time.Second))
}

// Text is a result in words, on one line.
func (r Result) Text() string {
	if r.Skipped != "" {
		return fmt.Sprintf("%-14s  not measured: %s\n", r.Scenario, r.Skipped)
	}
	parts := make([]string, len(r.Figures))
	for i, f := range r.Figures {
		parts[i] = f.Name + " " + f.text()
	}
	return fmt.Sprintf("%-14s  %s\n", r.Scenario, strings.Join(parts, ", "))
}

func (f Figure) text() string {
	switch f.Unit {
	case "s":
		return short(seconds(f.Value))
	case "1/s":
		return fmt.Sprintf("%.0f/s", f.Value)
	case "B":
		return fmt.Sprintf("%.1f MB", f.Value/1e6)
	}
	return strconv.FormatFloat(math.Round(f.Value*1000)/1000, 'f', -1, 64)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// short is a time with three digits, or in whole nanoseconds.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for limit := time.Duration(1000); d >= limit && unit < time.Second; limit *= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Text is the verdicts in words.
func (r Report) Text() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "%s: %s\n", v.Level, v.Text)
	}
	return b.String()
}
