//go:build unix

package itest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A case that is timed may fail because the machine stood still. So each case that fails says how
// busy the machine was. That is no excuse: a case must allow for what happens on a busy machine.

const (
	lateCheck = 20 * time.Millisecond
	lateFrom  = 100 * time.Millisecond // less is usual
)

// lateness is how late this process was to continue after short sleeps.
type lateness struct {
	mu    sync.Mutex
	times []late
}

type late struct {
	at time.Time // when the process continued
	by time.Duration
}

var processLateness lateness

// watch runs until the process ends.
func (l *lateness) watch() {
	for {
		before := time.Now()
		time.Sleep(lateCheck)
		if by := time.Since(before) - lateCheck; by >= lateFrom {
			l.add(late{before.Add(lateCheck + by), by})
		}
	}
}

func (l *lateness) add(one late) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, one)
}

// since says what the longest lateness was that ended after from.
func (l *lateness) since(from time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest late
	for _, one := range l.times {
		if one.at.After(from) && one.by > longest.by {
			longest = one
		}
	}
	if longest.by == 0 {
		return "never late by " + lateFrom.String()
	}
	return fmt.Sprintf("late by up to %v, until %s", longest.by.Round(time.Millisecond), clock(longest.at))
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// explainFailure makes a test that fails say how busy the machine was from now on.
func explainFailure(t *testing.T) {
	began, before := time.Now(), readProcessors()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("from %s to %s this process was %s; %s",
				clock(began), clock(time.Now()), processLateness.since(began), readProcessors().since(before))
		}
	})
}

// processors is what Linux says of all processors of the machine since it began.
type processors struct {
	at     time.Time
	waited time.Duration // while something waited for a processor
	stolen time.Duration // that the host of this machine gave to others
	err    error
}

func readProcessors() processors {
	p := processors{at: time.Now()}
	pressure, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		p.err = err
		return p
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		p.err = err
		return p
	}
	p.waited, p.stolen, p.err = parseProcessors(string(pressure), string(stat))
	return p
}

// parseProcessors reads the first lines of both files:
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS
//	cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST GUEST_NICE
//
// The times of the second are in hundredths of a second.
func parseProcessors(pressure, stat string) (waited, stolen time.Duration, err error) {
	pressure, _, _ = strings.Cut(pressure, "\n")
	_, total, _ := strings.Cut(pressure, "total=")
	stat, _, _ = strings.Cut(stat, "\n")
	fields := strings.Fields(stat)
	if len(fields) < 9 {
		return 0, 0, fmt.Errorf("/proc/stat says %q", stat)
	}
	if waited, err = time.ParseDuration(total + "us"); err != nil {
		return 0, 0, fmt.Errorf("/proc/pressure/cpu says %q: %w", pressure, err)
	}
	hundredths, err := strconv.Atoi(fields[8])
	return waited, time.Duration(hundredths) * time.Second / 100, err
}

func (p processors) since(before processors) string {
	if p.err != nil || before.err != nil {
		return "how busy the processors were is not known"
	}
	return fmt.Sprintf("something waited for a processor for %.0f %% of the time, and the host gave %v of processor time to others",
		100*float64(p.waited-before.waited)/float64(p.at.Sub(before.at)), p.stolen-before.stolen)
}
