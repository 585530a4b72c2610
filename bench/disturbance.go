package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// quiet keeps other work on the machine out of the figures, where the system tells how long processes had to wait for a CPU: on
// Linux. What was disturbed is measured again, as long as there is patience.
type quiet struct {
	patience  time.Duration // that is left
	servers   []int         // process ids
	parts     int           // that were measured
	disturbed int           // of those, though patience was at its end
}

// mayWait is how long, of the time that a part of a round takes, the clients or the servers may have been kept from running.
const mayWait = 0.1

// during calls measure, which measures for a short time, until it was not disturbed. It returns what the CPUs did for it.
func (q *quiet) during(ctx context.Context, measure func() error) (use cpuUse, err error) {
	for {
		began := time.Now()
		before := q.use()
		if err := measure(); err != nil {
			return cpuUse{}, err
		}
		use = q.use().minus(before)
		elapsed := time.Since(began)
		disturbed := max(use.client.waited, use.server.waited) > time.Duration(mayWait*float64(elapsed))
		if disturbed && q.patience > 0 && ctx.Err() == nil {
			q.await(ctx, began)
			continue
		}
		q.parts++
		if disturbed {
			q.disturbed++
		}
		return use, ctx.Err()
	}
}

// await waits until the CPUs are idle, and takes the time since began off the patience.
func (q *quiet) await(ctx context.Context, began time.Time) {
	const look, pause, mayRun = 100 * time.Millisecond, time.Second, 0.2
	for since := time.Now(); q.patience > time.Since(began) && ctx.Err() == nil; since = time.Now() {
		busy := busyTime()
		time.Sleep(look)
		if busyTime()-busy <= time.Duration(mayRun*float64(time.Since(since))*float64(cpus)) {
			break
		}
		time.Sleep(pause) // the others will go on for a while
	}
	q.patience -= time.Since(began)
}

func (q *quiet) String() string {
	if q.disturbed == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%.0f %% of it disturbed by other work", 100*float64(q.disturbed)/float64(q.parts))
}

// cpuUse is what the CPUs have done for this process and for the servers.
type cpuUse struct{ client, server cpuTime }

func (u cpuUse) minus(v cpuUse) cpuUse {
	return cpuUse{u.client.minus(v.client), u.server.minus(v.server)}
}

func (q *quiet) use() cpuUse {
	u := cpuUse{client: cpuTimeOf(os.Getpid(), false)}
	for _, pid := range q.servers {
		u.server = u.server.plus(cpuTimeOf(pid, true))
	}
	return u
}

// cpuTime is how long threads have run, and how long they could have run but had to wait.
type cpuTime struct{ ran, waited time.Duration }

func (t cpuTime) plus(u cpuTime) cpuTime  { return cpuTime{t.ran + u.ran, t.waited + u.waited} }
func (t cpuTime) minus(u cpuTime) cpuTime { return cpuTime{t.ran - u.ran, t.waited - u.waited} }

// each is the part of one of n, in µs; NaN where the system doesn't tell.
func (t cpuTime) each(n int) float64 {
	if n == 0 || t.ran == 0 {
		return math.NaN()
	}
	return micros(t.ran) / float64(n)
}

// cpuTimeOf adds up the threads of a process, and of those that it has started if that is wanted. It is zero where the system
// doesn't tell.
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
