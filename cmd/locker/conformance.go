package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/plain"
	"github.com/fencedlock/locker/conformance"
	holder "github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/middleware"
)

const conformanceLong = `Runs, on a lock service of yours, the suite that the backends of this project pass, and prints the
verdict of each case. A case tests something that the backend promises, or that every backend must
do.

The suite uses locks with new names in each run, and removes them; it touches no other locks. It
takes some minutes, makes a few thousand requests a second at times, and opens up to some hundred
connections: use it on a test installation rather than in production.

The suite makes no faults, because only the operator of the servers can: cases in which the network
is cut, or a server is paused or restarted, are shown as not tested. The suite does kill and stop
processes of this program, as holders of locks.

The exit code is 0 when no case has failed, and 1 otherwise; 130 after Ctrl-C, when it prints the
results so far.`

// conformanceOptions are the flags of conformance.
type conformanceOptions struct {
	backend string
	cases   string
	ttl     time.Duration
	format  string
	verbose bool
}

func newConformance() *cobra.Command {
	o := conformanceOptions{ttl: 2 * time.Second, format: "text"}
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Run the test suite on your lock service",
		Long:  conformanceLong,
		Example: `  LOCKER_URL=redis://redis.test locker conformance
  locker conformance --backend file:///tmp/locks --run '^B' --verbose`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&o.cases, "run", "", "run only the cases whose name matches this `regexp` (B22-fifo-order, ...)")
	flags.DurationVar(&o.ttl, "ttl", o.ttl, "TTL of leases in the cases about time; some backends have a minimum")
	flags.StringVar(&o.format, "format", o.format, "text, json")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print why each case matters, and why it was not tested")
	mustComplete(cmd, "backend", nil)
	mustComplete(cmd, "format", []string{"text", "json"})
	return cmd
}

func (o *conformanceOptions) run(cmd *cobra.Command) error {
	cases, err := o.chosen()
	if err != nil {
		return err
	}
	if o.format != "text" && o.format != "json" {
		return unknownFormat(o.format, "text, json")
	}
	if _, err := locker.Resolve("name", locker.WithTTL(o.ttl)); err != nil {
		return err
	}
	url, err := backendURL(o.backend, cmd.Flags().Changed("backend"))
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	results := &verdicts{w: cmd.OutOrStdout(), verbose: o.verbose, quiet: o.format == "json"}
	err = o.evaluate(ctx, url, cases, results)
	interrupt := interruption(ctx)
	if err != nil && interrupt == nil {
		return lockFailure(err)
	}
	if o.format == "json" {
		results.json()
	} else {
		results.sum()
	}
	switch {
	case interrupt != nil:
		return interrupt
	case results.err != nil:
		return &exitError{code: exitOutput, err: results.err}
	case results.count[conformance.Failed] > 0:
		return &exitError{code: exitOutput}
	}
	return nil
}

// evaluate runs the cases on what the URL opens.
func (o *conformanceOptions) evaluate(
	ctx context.Context, url string, cases []conformance.Case, results *verdicts,
) (err error) {
	l, err := open(ctx, url, nil)
	if err != nil {
		return err
	}
	g := l.Guarantees()
	if err := l.Close(); err != nil {
		return err
	}
	url, remove, err := scratch(url, "conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	results.line("%v\n", g)
	return conformance.Evaluate(ctx, harness(url, g, o.ttl), cases, results.add) //nolint:contextcheck // cases have contexts of their own
}

// scratch makes a new directory in the directory that a URL of the file backend names, because lock
// files stay, and returns its URL and what removes it. name is how the directory's name begins. It
// leaves other URLs alone. The URL is one that could be opened.
func scratch(rawURL, name string) (own string, remove func() error, err error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "file" {
		return rawURL, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp(u.Path, name)
	if err != nil {
		return "", nil, err
	}
	u.Path, u.RawPath = dir, ""
	return u.String(), func() error { return os.RemoveAll(dir) }, nil
}

// chosen are the cases that --run names.
func (o *conformanceOptions) chosen() ([]conformance.Case, error) {
	pattern, err := regexp.Compile(o.cases)
	if err != nil {
		if !plain.Word(o.cases) { // which the error repeats
			err = errors.New("want a regular expression, such as ^B22")
		}
		return nil, fmt.Errorf("--run: %w", err)
	}
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return !pattern.MatchString(c.String()) })
	if len(cases) == 0 {
		return nil, fmt.Errorf("--run: no case has a name that matches %s", plain.Quote(o.cases))
	}
	return cases, nil
}

// harness runs the suite on what a URL opens, with holders in processes of this program.
func harness(url string, g locker.Guarantees, ttl time.Duration) conformance.Harness {
	if !g.Expiry.TTL {
		ttl = 0
	}
	dial := func(t conformance.T) locker.Locker {
		l, err := locker.Open(context.WithoutCancel(t.Context()), url)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return l
	}
	h := conformance.Harness{Open: dial, TTL: ttl, Scale: 0.2, Settle: 300 * time.Millisecond}
	h.URL = url
	h.Prefixed = func(t conformance.T, prefix string) locker.Locker {
		l, err := middleware.Prefix(dial(t), prefix)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return l
	}
	h.Process = holders(url)
	return h
}

const holderCommand = "conformance-holder"

// newHolder is the hidden command that a holder of the suite runs in a process of its own.
func newHolder() *cobra.Command {
	return &cobra.Command{
		Use: holderCommand, Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := locker.Open(context.Background(), os.Getenv(envURL))
			if err != nil {
				return lockFailure(err)
			}
			defer l.Close()
			return holder.Serve(l, os.Stdin, os.Stdout)
		},
	}
}
