// Bench measures this project and its peers, in one run against the same servers, and prints a Markdown table for each
// backend. The same figures go to results.json, for tools.
//
// Figures of a machine change with its load and say little about another. So contestants take turns, in many short
// rounds of which the median counts, and what a request costs that does nothing is measured in the same round: a ratio is the
// median of the ratios of the rounds. docs/benchmarks.md says what the scenarios are.
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
	quick := flag.Bool("short", false, "fewer and shorter rounds: about a minute and a half for a backend, and less certain")
	only := flag.String("backend", "", "measure the backends that this `regexp` matches")
	scenarios := flag.String("run", "", "measure in the scenarios that this `regexp` matches")
	peers := flag.String("peer", "", "measure those that this `regexp` matches, and what they are compared with")
	output := flag.String("json", "results.json", "write the figures to this `file`")
	patience := flag.Duration("patience", 2*time.Minute, "for each backend: spend so long, in all, on measuring again what other work has disturbed")
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
