// Bench measures this project and other libraries for distributed locks, in one run against the
// same servers. It prints a Markdown table for each backend, and writes the same figures to
// results.json, for tools.
//
// What is measured: four scenarios (acquire + release, hand-off, 10,000 held leases, 10,000
// waiters); docs/benchmarks.md describes them.
//
// How: the figures of a machine change with its load and say little about another machine. So the
// peers take turns, in many short rounds, and the median of the rounds counts. The cost of a bare
// request, which does no work, is measured in the same round: a ratio is the median of the ratios
// of the rounds.
//
// Against what: each backend has its bare request, the commands of a lock written by hand, this
// project, and other libraries. Together they are its peers.
//
// In which order to read the files:
//
//  1. backends.go: the table of backends, and what a service, a peer and a client are.
//  2. measure.go: one run on one backend; then the scenarios, in the order in which they run:
//     scenario_load.go, scenario_handoff.go, scenario_leases.go, scenario_waiters.go.
//  3. redis.go and redis_peers.go, as an example of a backend: its servers, request counts and
//     goals, and its peers. The other backends have the same two files.
//  4. results.go, goals.go, table.go and stats.go: from the values of rounds to what is printed.
//  5. server.go, pin.go, disturbance.go and cputime.go: containers, and how other work on the
//     machine is kept out of the figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	quick := flag.Bool("short", false, "run fewer and shorter rounds: about a minute and a half for each backend; the figures are less certain")
	only := flag.String("backend", "", "measure only the backends whose name matches this `regexp`")
	scenarios := flag.String("run", "", "run only the scenarios whose name matches this `regexp`")
	peers := flag.String("peer", "", "measure only the peers whose name matches this `regexp`, and what they are compared with")
	output := flag.String("json", "results.json", "write the figures to this `file`")
	patience := flag.Duration("patience", 2*time.Minute, "for each backend, spend at most this long, in total, on repeating measurements that other work on the machine disturbed")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this `file`")
	flag.Parse()

	m := measurement{schedule: longSchedule}
	if *quick {
		m.schedule = shortSchedule
	}
	names, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if m.scenarios, err = regexp.Compile(*scenarios); err != nil {
		return err
	}
	if m.peers, err = regexp.Compile(*peers); err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}

	if err := pin(); err != nil {
		return err
	}
	var all []*results
	for _, b := range backends {
		if !names.MatchString(b.name) {
			continue
		}
		m.disturbance = &disturbance{timeLeft: *patience}
		r, err := m.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := r.print(os.Stdout); err != nil {
			return err
		}
		all = append(all, r)
	}
	return writeJSON(*output, all)
}
