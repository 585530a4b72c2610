package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/bench"
)

const benchLong = `Measures your lock service from where your programs run: is it fit, and how far is it from its
limits? The scenarios are

  open and close   of a Locker, and its first acquisition
  alone            acquire and release a free lock, in one goroutine, for the time --for
  many             the same in many goroutines, each with a lock of its own
  hand-off         many Lockers want one lock: the gap from a release to the next acquisition, and
                   Jain's index (1: all get it equally often)
  held             many leases for 1.2 TTL. The slack is which share of a lease's time is left at
                   its renewal: 0.65 to 0.8 is healthy, below 0.3 the next renewal that hangs loses
                   leases. "heap" and "goroutines": what the leases add to this process
  look             the time to list these locks
  wake             the process that holds a lock is stopped (SIGSTOP): the time until the next
                   holder

Its locks are locker-bench/RANDOM/..., and all are removed at the end, also after Ctrl-C. It makes
as much load as it can for three times --for, so it refuses to begin when there are more than 100
locks of others, unless --shared is given.

The exit code is 0, or 1 when a lease was lost or the slack's first percentile is below 0.3; 128+n
after signal n. The others:

  116  usage: bad arguments, or others use the service
  117  the lock service failed`

const benchExample = `  LOCKER_URL=redis://redis.example locker bench
  locker bench --backend postgres://app@db.example/app --leases 200 --for 2s --ttl 10s`

const benchPrefix = "locker-bench/"

// benchOptions are the flags of bench.
type benchOptions struct {
	bench.Config
	backend string
	format  string
}

func newBench() *cobra.Command {
	o := benchOptions{format: "text"}
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure your lock service",
		Long:    benchLong,
		Example: benchExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.IntVar(&o.Leases, "leases", 1000, "leases that are held at once")
	flags.IntVar(&o.Goroutines, "goroutines", 64, "goroutines that acquire and release at once")
	flags.IntVar(&o.Contenders, "contenders", 16, "Lockers that want one lock, each with its connections")
	flags.DurationVar(&o.For, "for", 10*time.Second, "time of each of alone, many and hand-off")
	flags.DurationVar(&o.TTL, "ttl", 0, "TTL of all leases (default: the backend's)")
	flags.BoolVar(&o.Shared, "shared", false, "begin also if others use the service")
	flags.StringVar(&o.format, "format", o.format, "text, json")
	mustComplete(cmd, "backend", nil)
	mustComplete(cmd, "format", []string{"text", "json"})
	return cmd
}

func (o *benchOptions) run(cmd *cobra.Command) error {
	if o.format != "text" && o.format != "json" {
		return unknownFormat(o.format, "text, json")
	}
	if err := o.Check(); err != nil {
		return err
	}
	if cmd.Flags().Changed("ttl") {
		if _, err := locker.Resolve("name", locker.WithTTL(o.TTL)); err != nil {
			return err
		}
	}
	url, err := backendURL(o.backend, cmd.Flags().Changed("backend"))
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	r, outErr, err := o.measure(ctx, cmd, url)
	return benchResult(cmd, interruption(ctx), r, outErr, err)
}

// benchResult is the end of a run: an interruption, or the errors of measure. What may be left is printed once,
// and hides no bad verdict.
func benchResult(cmd *cobra.Command, interrupt error, r bench.Report, outErr, err error) error {
	left := errors.Is(err, bench.ErrLeft) // all scenarios were measured, or it was interrupted
	if left && (interrupt != nil || r.Bad()) {
		flush(sayAside(cmd.ErrOrStderr(), err.Error()))
	}
	switch {
	case interrupt != nil:
		return interrupt
	case left && r.Bad():
		return &exitError{code: exitOutput}
	case errors.Is(err, bench.ErrShared):
		return err
	case err != nil:
		return lockFailure(err)
	case outErr != nil:
		return &exitError{code: exitOutput, err: outErr}
	case r.Bad():
		return &exitError{code: exitOutput}
	}
	return nil
}

// measure runs the scenarios and prints the report, also an incomplete one. outErr is of printing.
func (o *benchOptions) measure(ctx context.Context, cmd *cobra.Command, rawURL string) (r bench.Report, outErr, err error) {
	l, err := open(ctx, rawURL, nil) // a URL that can't be opened gets no directory of its own
	if err != nil {
		return r, nil, err
	}
	if err := l.Close(); err != nil {
		return r, nil, err
	}
	rawURL, remove, err := scratch(rawURL, "bench-")
	if err != nil {
		return r, nil, err
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // it never fails
	o.Prefix = benchPrefix + hex.EncodeToString(random) + "/"
	o.Open = func(ctx context.Context) (locker.Locker, error) { return open(ctx, rawURL, nil) }
	o.Hold = holdElsewhere(rawURL, o.TTL)
	say := func(text string) {
		for line := range strings.Lines(text) {
			if outErr == nil && o.format == "text" {
				outErr = output(cmd, printable(strings.TrimSuffix(line, "\n"))+"\n")
			}
		}
	}
	o.Progress = func(r bench.Report) {
		if n := len(r.Results); n > 0 {
			say(r.Results[n-1].Text())
		} else {
			say(r.Head())
		}
	}
	r, err = bench.Run(ctx, o.Config)
	if o.format == "json" && len(r.Results) > 0 {
		text, _ := json.MarshalIndent(r, "", "  ") // it has texts and numbers that JSON has
		outErr = output(cmd, string(text)+"\n")
	} else if len(r.Verdicts) > 0 {
		say(r.Text())
	}
	return r, outErr, errors.Join(err, remove())
}
