package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cpuUse is how long the clients and the servers have run.
type cpuUse struct{ client, server time.Duration }

func (u cpuUse) minus(v cpuUse) cpuUse { return cpuUse{u.client - v.client, u.server - v.server} }

// perOperation returns the CPU time of each of n operations, in µs; NaN if the system doesn't report
// times.
func perOperation(ran time.Duration, n int) float64 {
	if n == 0 || ran == 0 {
		return math.NaN()
	}
	return micros(ran) / float64(n)
}

// cpuTimeOf returns how long the threads of a process have run and, if children is true, the
// processes that it has started, also those that have ended. It is zero if the system doesn't report
// times.
func cpuTimeOf(pid int, children bool) (sum time.Duration) {
	if children {
		sum = endedChildren(pid)
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		var ran time.Duration
		if text, err := os.ReadFile(filepath.Join(thread, "schedstat")); err == nil {
			if _, err := fmt.Sscan(string(text), &ran); err == nil {
				sum += ran
			}
		}
		if !children {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(thread, "children"))
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				sum += cpuTimeOf(child, true)
			}
		}
	}
	return sum
}

// idleTime returns how long the CPUs have had nothing to do, or waited for the disk, since the system
// began; 0 if the system doesn't report times. Linux counts that in hundredths of a second.
func idleTime() time.Duration {
	text, _ := os.ReadFile("/proc/stat") // cpu USER NICE SYSTEM IDLE IOWAIT …
	first, _, _ := strings.Cut(string(text), "\n")
	var name string
	var user, nice, system, idle, wait int64
	if _, err := fmt.Sscan(first, &name, &user, &nice, &system, &idle, &wait); err != nil {
		return 0
	}
	return time.Duration(idle+wait) * 10 * time.Millisecond
}

// endedChildren returns how long the children of a process have run that have ended, with their
// children. Linux counts that in hundredths of a second.
func endedChildren(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may contain spaces
	const user, system = 13, 14                   // cutime and cstime
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	var ticks [2]int64
	if _, err := fmt.Sscan(fields[user]+" "+fields[system], &ticks[0], &ticks[1]); err != nil {
		return 0
	}
	return time.Duration(ticks[0]+ticks[1]) * 10 * time.Millisecond
}
