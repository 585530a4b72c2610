package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

const runLong = `Waits for the lock NAME, and runs CMD while the lock is held.

CMD finds LOCKER_NAME and LOCKER_TOKEN, the fencing token, in its environment. It has the input and
output of locker, and signals are passed on to its process group. The lock is released when CMD has
ended. If the lease is lost, the group gets TERM, and KILL after --grace.

The backend is a URL, given by --backend, or by LOCKER_URL in the environment, where it can't be
seen in the list of processes. Without either, locks are files in a private directory of the user,
which hold on this machine. A container has a directory of its own, so files are refused there.

The exit code is CMD's own, and 128+n when signal n ended CMD, or locker while it waited. The others:

` + exitTable

const runExample = `  locker run nightly-report -- ./report.sh
  locker run --no-wait --quiet nightly-report -- ./report.sh    # for cron: not twice at a time
  locker run --wait 5m --require correctness deploy -- ./deploy.sh production`

// runOptions are the flags of run.
type runOptions struct {
	backend string
	require []string
	ttl     time.Duration
	wait    time.Duration
	maxHold time.Duration
	grace   time.Duration
	holder  string
	noWait  bool
	quiet   bool
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- CMD [ARG...]",
		Short:   "Run a command while a lock is held",
		Long:    runLong,
		Example: runExample,
		// Flags after "--" are CMD's own.
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			// The arguments are not repeated: one of them may be a URL that was meant for
			// --backend.
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return errors.New("run wants one NAME, then --, then CMD; see locker run --help")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp // a lock's name is no file
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.runner(cmd, args[0], args[1:])
			if err != nil {
				return err
			}
			return r.run()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.DurationVar(&o.wait, "wait", 0, "wait this long for the lock (default: without limit)")
	flags.BoolVar(&o.noWait, "no-wait", false, "don't wait for the lock")
	flags.DurationVar(&o.ttl, "ttl", 0, "a silent holder loses the lock after this time (default: the backend's)")
	flags.DurationVar(&o.maxHold, "max-hold", 0, "end CMD's lease after this time (default: never)")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "time between TERM and KILL when the lease is lost")
	flags.StringVar(&o.holder, "holder", "", "`TEXT` for locker ls and show, or - (default: HOST/PID/CMD (run))")
	flags.StringSliceVar(&o.require, "require", nil, "`guarantee` that the backend must give (correctness, ...); may be repeated")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing about waiting, nor about a lock that is held")
	mustComplete(cmd, "require", requirementNames())
	mustComplete(cmd, "backend", nil)
	return cmd
}

// mustComplete gives the values of a flag to shells for completion. It panics for a flag that
// doesn't exist.
func mustComplete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// runner is one run of CMD under a lock.
type runner struct {
	name    string
	argv    []string
	url     string
	reqs    []locker.Requirement
	opts    []locker.Option
	wait    time.Duration // 0: without limit, unless noWait
	noWait  bool
	grace   time.Duration
	quiet   bool
	stderr  io.Writer
	signals chan os.Signal
	tty     terminal
}

// runner checks everything that can be checked without asking the service.
func (o *runOptions) runner(cmd *cobra.Command, name string, argv []string) (*runner, error) {
	r := &runner{name: name, argv: argv, stderr: cmd.ErrOrStderr()}
	r.wait, r.noWait, r.grace, r.quiet = o.wait, o.noWait, o.grace, o.quiet
	given := cmd.Flags().Changed
	switch {
	case strings.Contains(name, "://") && strings.Contains(name, "@"): // its password would be shown in every message
		return nil, errors.New("NAME looks like a URL with a user; a URL belongs to --backend or LOCKER_URL")
	case o.noWait && given("wait"):
		return nil, errors.New("--wait and --no-wait exclude each other")
	case given("wait") && o.wait <= 0:
		return nil, errors.New("--wait must be positive, such as 5m; --no-wait doesn't wait at all")
	case o.grace < 0:
		return nil, errors.New("--grace must not be negative: want a time such as 10s")
	}
	if o.noWait {
		r.opts = append(r.opts, locker.NoWait())
	}
	if given("ttl") {
		r.opts = append(r.opts, locker.WithTTL(o.ttl))
	}
	if given("max-hold") {
		r.opts = append(r.opts, locker.WithMaxHold(o.maxHold))
	}
	if given("holder") {
		r.opts = append(r.opts, locker.WithHolder(o.holder))
	}
	if _, err := locker.Resolve(name, r.opts...); err != nil {
		return nil, err
	}
	var err error
	if r.reqs, err = parseRequirements(o.require); err != nil {
		return nil, err
	}
	if r.url, err = backendURL(o.backend, given("backend")); err != nil {
		return nil, err
	}
	if u, err := url.Parse(r.url); !given("holder") && (err != nil || !u.Query().Has("holder")) {
		r.opts = append(r.opts, locker.WithHolder(holderOf(argv[0])))
	}
	return r, nil
}

// holderOf is what a run of CMD says of itself.
func holderOf(command string) string {
	own := locker.DefaultHolder()
	text := own[:strings.LastIndexByte(own, '/')+1] + filepath.Base(command) + " (run)"
	if _, err := locker.Resolve("name", locker.WithHolder(text)); err != nil { // the command's name is too long, or can't be shown
		return own
	}
	return text
}

// run gets the lock, runs CMD and gives the lock back.
func (r *runner) run() (err error) {
	path, err := exec.LookPath(r.argv[0]) // before the lock is asked for
	if err != nil {
		return startFailure(err)
	}
	r.signals = make(chan os.Signal, 16)
	catch(r.signals, endingSignals)
	surviveBrokenPipe()
	r.tty = openTerminal()
	defer r.tty.close()

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if r.wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, r.wait)
		defer stop()
	}
	l, err := await(r, cancel, nil, func() (locker.Locker, error) { return open(ctx, r.url, r.reqs) })
	if l != nil { // also when a signal came meanwhile
		defer func() {
			if closeErr := l.Close(); closeErr != nil {
				flush(sayAside(r.stderr, closeErr.Error()))
			}
		}()
	}
	if err != nil {
		return err
	}
	lease, err := await(r, cancel, r.tellOfWait, func() (locker.Lease, error) { return r.acquire(ctx, l) })
	if err != nil {
		return r.explain(err, l.Guarantees())
	}

	cmd := exec.Command(path, r.argv[1:]...)
	cmd.Args[0] = r.argv[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "LOCKER_NAME="+r.name, "LOCKER_TOKEN="+lease.Token().String(), envHeld+"="+addHeld(r.url, r.name))
	reported, err := r.supervise(cmd, lease)
	// Close tries a removal again that isn't confirmed yet, and returns an error when that fails as
	// well.
	if releaseErr := lease.Release(ctx); errors.Is(releaseErr, locker.ErrLost) {
		exit := &exitError{code: exitLost}
		if !reported {
			exit.err = releaseErr
		}
		return exit
	}
	return err
}

// acquire waits for the lock, unless a locker run around this one has it. That one may have lost
// it, so this one tries once.
func (r *runner) acquire(ctx context.Context, l locker.Locker) (locker.Lease, error) {
	if around := heldAround(r.url, r.name); around != nil {
		lease, err := l.Acquire(ctx, r.name, append(slices.Clone(r.opts), locker.NoWait())...)
		if errors.Is(err, locker.ErrHeld) {
			err = around
		}
		return lease, err
	}
	return l.Acquire(ctx, r.name, r.opts...)
}

// explain adds the flag that caused an error, and drops what the user doesn't want to read.
func (r *runner) explain(err error, g locker.Guarantees) error {
	var exit *exitError
	if !errors.As(err, &exit) {
		return err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported) && !g.Expiry.TTL:
		exit.err = fmt.Errorf("%w (--ttl: a lock of %s is not freed by time, but when its %v)", exit.err, g.Backend, g.Expiry)
	case exit.code == exitHeld && r.quiet && !errors.Is(err, locker.ErrHeldByCaller): // that is a mistake, not what is asked about
		exit.err = nil
	}
	return exit
}
