package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

const runLong = `Waits for the lock NAME, and runs CMD while the lock is held.

CMD finds LOCKER_NAME and LOCKER_TOKEN, the fencing token, in its environment. CMD has the input and
output of locker, and its process group gets the signals that locker gets. The lock is released when
CMD has ended. If the lease is lost, CMD's process group gets TERM, and KILL after --grace.

With --permits 3, at most three runs of NAME with that number are under way at the same time, on all
machines. CMD also finds LOCKER_SLOT, from 1 to 3: no other of these runs has the same slot, and the
token is the slot's. Permits of NAME and the lock NAME don't exclude each other.

The lock service is a URL, given by --backend or by LOCKER_URL in the environment. Put a URL with a
password into LOCKER_URL: everybody can see arguments in the list of processes. Without a URL, locks
are files in a private directory of the user, for the processes of this machine. In a container they
are refused, because each container has a directory of its own.

The exit code is CMD's own, and 128+n when signal n ended CMD, or locker while it waited. Others:

` + exitTable

const runExample = `  locker run nightly-report -- ./report.sh
  locker run --permits 3 thumbnails -- sh -c './worker.sh "$LOCKER_SLOT"'
  locker run --wait 5m --require correctness deploy -- ./deploy.sh production

  # cron doesn't have your shell's variables or its PATH: set LOCKER_URL in the crontab, and the
  # path of locker. Without LOCKER_URL the lock is for this machine only.
  LOCKER_URL=redis://locks.internal:6379/0
  # not twice at a time
  @hourly  locker run --no-wait -q --held-code 0 --require scope-network job -- ./job
  # once on all machines
  @hourly  locker run --no-wait -q --held-code 0 --at-least 30s --require scope-network job -- ./job`

// runOptions are the flags of run.
type runOptions struct {
	leaseOptions
	atLeast time.Duration
	grace   time.Duration
	held    int
	permits int
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
	o.addTo(cmd, "HOST/PID/CMD (run)")
	flags := cmd.Flags()
	flags.DurationVar(&o.atLeast, "at-least", 0, "keep the lock for this long, even if CMD ends before")
	flags.IntVar(&o.held, "held-code", exitHeld, "exit `CODE` if the lock is held, with --no-wait or --wait")
	flags.IntVar(&o.permits, "permits", 0, "get one permit of NAME, in place of the lock NAME: at most `LIMIT` runs have one")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "time between TERM and KILL when the lease is lost")
	return cmd
}

// runner is one run of CMD under a lock.
type runner struct {
	*acquirer
	argv    []string
	atLeast time.Duration // 0: the lock is given back when CMD has ended
	grace   time.Duration
}

// runner checks everything that can be checked without asking the service.
func (o *runOptions) runner(cmd *cobra.Command, name string, argv []string) (*runner, error) {
	given := cmd.Flags().Changed
	switch {
	case o.held < 0 || o.held > 255:
		return nil, errors.New("--held-code must be from 0 to 255")
	case given("held-code") && !o.noWait && !given("wait"):
		return nil, errors.New("--held-code needs --no-wait or --wait: without them locker waits until it has the lock")
	case given("permits") && given("at-least"):
		return nil, errors.New("--permits and --at-least exclude each other")
	case given("permits") && (o.permits < 1 || o.permits > locker.MaxPermits):
		return nil, fmt.Errorf("--permits must be from 1 to %d, such as 3", locker.MaxPermits)
	case o.grace < 0:
		return nil, errors.New("--grace must not be negative: want a time such as 10s")
	}
	var opts []locker.Option
	if given("at-least") {
		opts = append(opts, locker.WithMinHold(o.atLeast))
	}
	a, err := o.acquirer(cmd, name, filepath.Base(argv[0])+" (run)", opts...)
	if err != nil {
		return nil, err
	}
	a.held, a.permits = o.held, o.permits
	return &runner{acquirer: a, argv: argv, atLeast: o.atLeast, grace: o.grace}, nil
}

// run gets the lock, runs CMD and gives the lock back.
func (r *runner) run() error {
	path, err := lookPath(r.argv[0]) // before the lock is asked for
	if err != nil {
		return err
	}
	surviveBrokenPipe()
	l, lease, err := r.obtain()
	if err != nil {
		r.giveUp(l)
		return err
	}
	reported, err := r.supervise(r.command(path, lease), lease)
	return r.giveBack(l, lease, reported, err)
}

// command is CMD, which is found at path.
func (r *runner) command(path string, lease locker.Lease) *exec.Cmd {
	cmd := exec.Command(path, r.argv[1:]...)
	cmd.Args[0] = r.argv[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(withoutSlot(os.Environ()), "LOCKER_NAME="+r.name, "LOCKER_TOKEN="+lease.Token().String(), envHeld+"="+addHeld(r.url, r.subject()))
	if r.permits > 0 {
		cmd.Env = append(cmd.Env, envSlot+strconv.Itoa(locker.Slot(lease)))
	}
	return cmd
}

const envSlot = "LOCKER_SLOT="

// withoutSlot leaves out the slot of a locker run around this one, which belongs to that one's name.
func withoutSlot(env []string) []string {
	return slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, envSlot) })
}
