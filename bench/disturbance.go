package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// quiet keeps other work on the machine out of the figures, where the system tells how long processes had to wait for a CPU: on
// Linux. What was disturbed is measured again, as long as there is patience.
type disturbance struct {
	timeLeft   time.Duration // that is left
	serverPIDs []int         // process ids
	measured   int           // that were measured
	disturbed  int           // of those, though patience was at its end
}

// mayWait is how long, of the time that a part of a round takes, the clients or the servers may have been kept from running.
const maxWaitShare = 0.1

// during calls measure, which measures for a short time, until it was not disturbed. It returns what the CPUs did for it.
func (d *disturbance) measureUndisturbed(ctx context.Context, measure func() error) (use cpuUse, err error) {
	for {
		began := time.Now()
		before := d.cpuUse()
		if err := measure(); err != nil {
			return cpuUse{}, err
		}
		use = d.cpuUse().minus(before)
		elapsed := time.Since(began)
		disturbed := max(use.client.waited, use.server.waited) > time.Duration(maxWaitShare*float64(elapsed))
		if disturbed && d.timeLeft > 0 && ctx.Err() == nil {
			d.awaitIdleCPUs(ctx, began)
			continue
		}
		d.measured++
		if disturbed {
			d.disturbed++
		}
		return use, ctx.Err()
	}
}

// await waits until the CPUs are idle, and takes the time since began off the patience.
func (d *disturbance) awaitIdleCPUs(ctx context.Context, began time.Time) {
	const interval, pause, maxBusyShare = 100 * time.Millisecond, time.Second, 0.2
	for since := time.Now(); d.timeLeft > time.Since(began) && ctx.Err() == nil; since = time.Now() {
		busy := busyTime()
		time.Sleep(interval)
		if busyTime()-busy <= time.Duration(maxBusyShare*float64(time.Since(since))*float64(cpus)) {
			break
		}
		time.Sleep(pause) // the others will go on for a while
	}
	d.timeLeft -= time.Since(began)
}

func (d *disturbance) String() string {
	if d.disturbed == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%.0f %% of it disturbed by other work", 100*float64(d.disturbed)/float64(d.measured))
}

func (d *disturbance) cpuUse() cpuUse {
	u := cpuUse{client: cpuTimeOf(os.Getpid(), false)}
	for _, pid := range d.serverPIDs {
		u.server = u.server.plus(cpuTimeOf(pid, true))
	}
	return u
}
