package main

import (
	"context"
	"fmt"
	"os"
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

func (q *quiet) use() cpuUse {
	u := cpuUse{client: cpuTimeOf(os.Getpid(), false)}
	for _, pid := range q.servers {
		u.server = u.server.plus(cpuTimeOf(pid, true))
	}
	return u
}
