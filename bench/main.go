// Bench measures this project and other libraries for distributed locks, in one run against the
// same servers. It prints a Markdown table for each backend, and writes the same figures to
// results.json, for tools. With -charts it also draws the charts of docs/benchmarks.md, and with -page
// it writes the tables of that page: of its own figures, or of results.json files that are named as
// arguments, and then it measures nothing.
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
//  4. results.go, goals.go, table.go, page.go, charts.go and stats.go: from the values of rounds to
//     what is printed and drawn.
//  5. server.go, pin.go, disturbance.go and cputime.go: containers, and how other work on the
//     machine is kept out of the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

func main() {
	if serveHelper() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	limit := flag.Duration("time", defaultTime, "divide this time among the backends; what doesn't fit isn't measured")
	only := flag.String("backend", "", "measure only the backends whose name matches this `regexp`")
	scenarios := flag.String("run", "", "run only the scenarios whose name matches this `regexp`")
	peerNames := flag.String("peer", "", "measure only the peers whose name matches this `regexp`, and what they are compared with")
	output := flag.String("json", "results.json", "write the figures to this `file`")
	commit := flag.String("compare", "", "measure acquire + release of this `commit` of the project in the same rounds, in place of other libraries")
	pictures := flag.String("charts", "", "draw charts into this `folder`: of the JSON files that are named as arguments, or else of this run")
	page := flag.String("page", "", "write the tables of this Markdown `file`: of the JSON files that are named as arguments, or else of this run")
	flag.BoolVar(&dataOnDisk, "disk", false, "etcd and ZooKeeper write their data to the disk before they answer, and not to memory")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this `file`")
	flag.Parse()
	if flag.NArg() > 0 {
		return present(*pictures, *page, flag.Args())
	}

	var m measurement
	names, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if m.scenarios, err = regexp.Compile(*scenarios); err != nil {
		return err
	}
	if m.peerNames, err = regexp.Compile(*peerNames); err != nil {
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
	awake, err := keepAwake(ctx)
	if err != nil {
		return err
	}
	defer awake.stop()
	table := backends
	if *commit != "" {
		var c *comparison
		if c, err = startComparison(ctx, *commit); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.stop()) }()
		table, m.clientPIDs = c.backends(), c.pids()
	}
	selected := slices.DeleteFunc(slices.Clone(table), func(b backend) bool { return !names.MatchString(b.name) })
	all, err := m.measureAll(ctx, selected, time.Now().Add(*limit), awake)
	err = errors.Join(err, writeJSON(*output, rowsOf(all)))
	if *pictures != "" && len(all) > 0 {
		err = errors.Join(err, writeCharts(*pictures, rowsOf(all)))
	}
	if *page != "" && len(all) > 0 {
		err = errors.Join(err, writePage(*page, rowsOf(all)))
	}
	return err
}

// defaultTime leaves some of a quarter of an hour for the Go benchmarks of the packages.
const defaultTime = 13 * time.Minute

// stopReserve is how long the servers of a backend may take to end.
const stopReserve = 5 * time.Second

// errTimeOver ends the measurement of a backend that has used its share.
var errTimeOver = errors.New("the time is over")

// measureAll measures each backend until end at the latest, and prints its table. Each has the same
// share of the time that is left.
func (m measurement) measureAll(
	ctx context.Context, selected []backend, end time.Time, awake awakeCPUs,
) (all []*results, err error) {
	for i, b := range selected {
		share := time.Until(end) / time.Duration(len(selected)-i)
		m.backend, m.end = b, time.Now().Add(share-stopReserve)
		m.disturbance = &disturbance{awake: awake, clientPIDs: m.clientPIDs}
		limited, cancel := context.WithDeadlineCause(ctx, m.end, errTimeOver)
		r, err := m.measure(limited)
		cancel()
		if r != nil {
			all = append(all, r)
			err = errors.Join(err, r.print(os.Stdout))
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return all, nil
}
