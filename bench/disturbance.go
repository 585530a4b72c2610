package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// disturbance keeps other work on the machine out of the figures. Helpers keep the CPUs awake
// (awake.go). So other work is the time that is left when the helpers, the clients, the servers and
// what a CPU was idle all the same are subtracted. A measurement that was disturbed is repeated, as
// long as timeLeft allows. Where CPUs can't be kept awake, nothing is known about other work.
type disturbance struct {
	timeLeft   time.Duration // for repeating disturbed measurements
	serverPIDs []int
	clientPIDs []int // of other processes with clients
	networks   *networks
	awake      awakeCPUs
	began      look
	measured   int // measurements that count
	disturbed  int // of those measured, because no time was left
}

// maxOtherShare is how much other work a measurement may have, as a part of the time of all CPUs. The
// system's own work is a part of it: it writes what servers have on disk before they answer.
// leastOther is what isn't noticed in short ones: the system counts the time of a thread that is
// running when it is interrupted next, up to 10 ms later.
const (
	maxOtherShare = 0.1
	leastOther    = 20 * time.Millisecond
)

// look is how long the processes of a run have worked until a time.
type look struct {
	at      time.Time
	use     cpuUse
	helpers time.Duration
	idle    time.Duration // of all CPUs
}

func (d *disturbance) look() look {
	return look{time.Now(), d.cpuUse(), d.awake.ran() + d.networks.ran(), idleTime()}
}

// otherSince returns how long the CPUs have worked for other processes since an earlier look.
func (now look) otherSince(before look) time.Duration {
	use := now.use.minus(before.use)
	known := use.client + use.server + now.helpers - before.helpers + now.idle - before.idle
	return max(0, time.Duration(cpus)*now.at.Sub(before.at)-known)
}

// begin begins the time that String describes.
func (d *disturbance) begin() { d.began = d.look() }

// measureUndisturbed calls measure, which must be short, and repeats it until it was not disturbed
// or no time is left. It returns the CPU times of the last call.
func (d *disturbance) measureUndisturbed(ctx context.Context, measure func() error) (use cpuUse, err error) {
	for {
		before := d.look()
		if err := measure(); err != nil {
			return cpuUse{}, err
		}
		after := d.look()
		disturbed := d.disturbedBetween(before, after)
		if disturbed && d.timeLeft > 0 && ctx.Err() == nil {
			d.awaitIdleCPUs(ctx, before.at)
			continue
		}
		d.measured++
		if disturbed {
			d.disturbed++
		}
		return after.use.minus(before.use), ctx.Err()
	}
}

func (d *disturbance) disturbedBetween(before, after look) bool {
	allowed := time.Duration(maxOtherShare * float64(cpus) * float64(after.at.Sub(before.at)))
	return len(d.awake) > 0 && after.otherSince(before) > max(allowed, leastOther)
}

// awaitIdleCPUs waits until there is no other work, and subtracts the time since began from
// timeLeft.
func (d *disturbance) awaitIdleCPUs(ctx context.Context, began time.Time) {
	const interval, pause = 200 * time.Millisecond, time.Second
	for d.timeLeft > time.Since(began) && ctx.Err() == nil {
		before := d.look()
		time.Sleep(interval)
		if !d.disturbedBetween(before, d.look()) {
			break
		}
		time.Sleep(pause) // the other work will continue for a while
	}
	d.timeLeft -= time.Since(began)
}

// String says how much other work there was since begin.
func (d *disturbance) String() string {
	if len(d.awake) == 0 {
		return "other work is not known"
	}
	now := d.look()
	share := float64(now.otherSince(d.began)) / float64(cpus) / float64(now.at.Sub(d.began.at))
	return fmt.Sprintf("other work took %.2g %% of the CPUs, and disturbed %.2g %% of the measurements",
		100*share, 100*float64(d.disturbed)/float64(max(d.measured, 1)))
}

func (d *disturbance) cpuUse() cpuUse {
	u := cpuUse{client: cpuTimeOf(os.Getpid(), false)}
	for _, pid := range d.clientPIDs {
		u.client += cpuTimeOf(pid, false)
	}
	for _, pid := range d.serverPIDs {
		u.server += cpuTimeOf(pid, true)
	}
	return u
}
