// Campaign shows what distributed locks do when something goes wrong. It has real servers, real
// processes and real faults, and runs this project and other libraries in the same rounds.
//
// A round of one library has two contenders in processes of their own, a victim and a rival, and
// data which each of them reads and writes while it has the lock: a counter, or what another
// workload needs. One fault happens to the victim, or to the servers, at a random moment of the
// victim's critical section. Then the history is judged: how many acknowledged updates are lost,
// whether both believed at the same time that they had the lock, and more.
//
// Locks with a planted mistake show that the campaign finds mistakes.
//
// Chance depends on the seed alone, so a round can be repeated. What the machine does meanwhile
// can't.
//
// In which order to read the files:
//
//  1. backend.go, library.go, fault.go, workload.go: the tables of what can be run. selection.go:
//     which rows of them are. fault_link.go, fault_clock.go, fault_preload.go,
//     fault_service.go, fault_leader.go and fault_cluster.go: more faults.
//  2. campaign.go: lanes of rounds that run at the same time. experiment.go: the rounds of one fault.
//     stalls.go: when the machine was too busy. result.go and resume.go: what is written.
//  3. match.go, match_fault.go and rival.go: one round of one library. schedule.go: what chance
//     decides in it.
//  4. contender.go, section.go and watch.go: what a contender does; wire.go and process.go: how the
//     program talks with it. store.go: the data and its fence.
//  5. workload_verdict.go: what is lost. verdict.go: from the history to findings. row.go and
//     rules.go: from findings to a row, and when a row fails. hazard.go: what the guarantees exclude.
//     report.go and chart.go: docs/proof.md and docs/failovers.md, with charts.
//  6. redis.go, as an example of a backend: its servers and libraries. server.go: containers.
//     server_faults.go and server_isolate.go: what can be done to servers.
//  7. planted.go: locks with a mistake.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	if text := os.Getenv(taskVariable); text != "" {
		if err := contend(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "contender:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		stop()
		os.Exit(1)
	}
}

// errFails ends the program with an error when the figures are written.
var errFails = errors.New("rows break the rules")

func run(ctx context.Context) error {
	var c campaign
	backendName := flag.String("backend", "", "run only the backends whose name matches this `regexp`")
	faultName := flag.String("fault", "", "run only the faults whose name matches this `regexp`; it is anchored")
	libraryName := flag.String("library", "", "run only the libraries whose name matches this `regexp`")
	workloadName := flag.String("workload", counterWorkload, "run only the workloads whose name matches this `regexp`; it is anchored")
	planted := flag.Bool("planted", false, "run locks with a mistake in place of libraries, until the campaign has found it: an error if it doesn't")
	limit := flag.Duration("time", time.Hour, "begin no round after this time")
	output := flag.String("json", "results.json", "write the figures to this `file`")
	report := flag.String("report", "", "run nothing; write this `file`, such as ../docs/proof.md, from the JSON files that are named as arguments")
	goOn := flag.Bool("continue", false, "go on with the run whose figures are in the file of -json: its rounds count, and its seed is used")
	flag.IntVar(&c.rounds, "rounds", 50, "run this many `rounds` of each fault")
	flag.IntVar(&c.peerRounds, "peer-rounds", -1, "run other libraries in up to this many of the `rounds`; -1: in all")
	flag.IntVar(&c.parallel, "parallel", 8, "run up to this many `rounds` at the same time")
	flag.Uint64Var(&c.seed, "seed", 0, "repeat the schedules of a run with this `seed` (default: a random one)")
	flag.Parse()
	if *report != "" {
		return writeReport(*report, flag.Args())
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("argument %q is invalid: want flags alone, such as -backend redis", flag.Arg(0))
	}
	if c.rounds < 1 || c.peerRounds < -1 || c.parallel < 1 {
		return errors.New("a number of rounds is invalid: want -rounds and -parallel 1 or more, and -peer-rounds -1 or more")
	}
	if c.peerRounds == -1 {
		c.peerRounds = c.rounds
	}
	var err error
	if c.selection, err = newSelection(*backendName, *faultName, *libraryName, *workloadName, *planted); err != nil {
		return err
	}
	defer skewed.remove()
	defer preload.remove()
	begin := time.Now()
	c.end, c.log = begin.Add(*limit), os.Stdout
	if err := c.newResult(ctx, *output, *goOn); err != nil {
		return err
	}
	fmt.Printf("seed %d\n", c.seed)
	err = c.run(ctx)
	c.result.Seconds += int(time.Since(begin).Seconds())
	err = errors.Join(err, c.result.write(*output))
	if c.planted {
		return errors.Join(err, c.unfound())
	}
	if slices.ContainsFunc(c.result.Rows, func(r *row) bool { return len(r.Fails) > 0 }) {
		err = errors.Join(err, errFails)
	}
	return err
}

// newResult sets the result and the seed.
func (c *campaign) newResult(ctx context.Context, file string, goOn bool) (err error) {
	given := c.seed
	if given == 0 {
		c.seed = rand.Uint64()
	}
	c.result = newResult(ctx, c.seed)
	if goOn {
		if c.result, err = c.result.resume(file, given); err != nil {
			return err
		}
		c.seed = c.result.Seed
	}
	c.result.Parallel = max(c.result.Parallel, c.parallel)
	return nil
}
