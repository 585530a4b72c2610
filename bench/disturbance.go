package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// disturbance keeps other work on the machine out of the figures, on systems that report how long
// processes have waited for a CPU: on Linux. A measurement that was disturbed is repeated, as long
// as timeLeft allows.
type disturbance struct {
	timeLeft   time.Duration // for repeating disturbed measurements
	serverPIDs []int
	clientPIDs []int // of other processes with clients
	awake      awakeCPUs
	measured   int // measurements that count
	disturbed  int // of those measured, because no time was left
}

// maxWaitShare is which part of the time of a measurement the clients or the servers may have
// waited for a CPU.
const maxWaitShare = 0.1

// measureUndisturbed calls measure, which must be short, and repeats it until it was not disturbed
// or no time is left. It returns the CPU times of the last call.
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

// awaitIdleCPUs waits until the CPUs are idle, and subtracts the time since began from timeLeft.
func (d *disturbance) awaitIdleCPUs(ctx context.Context, began time.Time) {
	const interval, pause, maxBusyShare = 100 * time.Millisecond, time.Second, 0.2
	for since := time.Now(); d.timeLeft > time.Since(began) && ctx.Err() == nil; since = time.Now() {
		busy := d.otherWork()
		time.Sleep(interval)
		if d.otherWork()-busy <= time.Duration(maxBusyShare*float64(time.Since(since))*float64(cpus)) {
			break
		}
		time.Sleep(pause) // the other work will continue for a while
	}
	d.timeLeft -= time.Since(began)
}

func (d *disturbance) String() string {
	if d.disturbed == 0 {
		return "undisturbed"
	}
	return fmt.Sprintf("%.0f %% of it disturbed by other work", 100*float64(d.disturbed)/float64(d.measured))
}

// otherWork is how long the CPUs have worked, without what keeps them awake.
func (d *disturbance) otherWork() time.Duration { return busyTime() - d.awake.ran() }

func (d *disturbance) cpuUse() cpuUse {
	u := cpuUse{client: cpuTimeOf(os.Getpid(), false)}
	for _, pid := range d.clientPIDs {
		u.client = u.client.plus(cpuTimeOf(pid, false))
	}
	for _, pid := range d.serverPIDs {
		u.server = u.server.plus(cpuTimeOf(pid, true))
	}
	return u
}
