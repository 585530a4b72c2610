package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cpuUse is the CPU time of this process and of the servers.
type cpuUse struct{ client, server cpuTime }

func (u cpuUse) minus(v cpuUse) cpuUse {
	return cpuUse{u.client.minus(v.client), u.server.minus(v.server)}
}

// cpuTime is how long threads have run, and how long they were ready to run but had to wait for a
// CPU.
type cpuTime struct{ ran, waited time.Duration }

func (t cpuTime) plus(u cpuTime) cpuTime  { return cpuTime{t.ran + u.ran, t.waited + u.waited} }
func (t cpuTime) minus(u cpuTime) cpuTime { return cpuTime{t.ran - u.ran, t.waited - u.waited} }

// perOperation returns the time that each of n operations has run, in µs; NaN if the system doesn't
// report times.
func (t cpuTime) perOperation(n int) float64 {
	if n == 0 || t.ran == 0 {
		return math.NaN()
	}
	return micros(t.ran) / float64(n)
}

// cpuTimeOf returns the sum over the threads of a process and, if children is true, of the
// processes that it has started. It is zero if the system doesn't report times.
func cpuTimeOf(pid int, children bool) (sum cpuTime) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		var t cpuTime
		if text, err := os.ReadFile(filepath.Join(thread, "schedstat")); err == nil {
			if _, err := fmt.Sscan(string(text), &t.ran, &t.waited); err == nil {
				sum = sum.plus(t)
			}
		}
		if !children {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(thread, "children"))
		for word := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				sum = sum.plus(cpuTimeOf(child, true))
			}
		}
	}
	return sum
}

// busyTime is how long all CPUs have worked. Linux counts in hundredths of a second.
func busyTime() time.Duration {
	var user, nice, system, idle, waiting, irq, softirq int64
	text, _ := os.ReadFile("/proc/stat")
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &irq, &softirq); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq) * 10 * time.Millisecond
}
