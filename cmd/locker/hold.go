package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/dialog"
	"github.com/fencedlock/locker/observe"
)

const holdLong = `Waits for the lock NAME, and holds it until the standard input ends. It is for programs in any
language: start it with pipes for its input and output, read the first line, work, and close its
input to release the lock.

Output lines are JSON objects, and input lines are requests. "event" is

  granted   the lock is held: with the fencing token, and until when the lease may be trusted;
            the first line, except for answers to what was asked before
  held      the answer to the line "check": with the deadline as it is now
  waiting   the answer to the line "check" before the lock is granted
  renewed   with --verbose: there is a new deadline
  error     the answer to any other line
  released  the last line: the lock was given back; with "error": the service has not confirmed it
  lost      the last line: others may have the lock; "cause" and "error" say why

An output that ends without "released" means that the lease is lost. Write "check", and read the
answer, before each step of the work. The token is a text, because not every language reads numbers
of this size exactly. "deadline" is by the wall clock, "deadline_boottime_ns" by CLOCK_BOOTTIME
(Linux). Both are missing where a lease never ends by time.

The lock is released when the input has ended, by TERM, or when the process that has started this
one has ended. A terminal sends HUP, INT and QUIT to that process, too, so they end the wait, but
not the lease, unless the input is the terminal.

The exit code is 0 when the lock was released, also if the service has not confirmed that, and 128+n
when signal n ended the lease or the wait. The others:

  1    the lock was released, but nobody has read the output
  116  usage: bad arguments, or a backend that can't do or doesn't promise what was asked
  117  the lock service failed
  118  the lock is held: --no-wait, --wait ran out, the input ended before, or a locker run around
       this one has it
  119  the lease was lost`

const holdExample = `  locker hold --wait 5m deploy
  locker hold --no-wait --ttl 10s --holder "$USER, OPS-118" deploy`

// parentEvery is how often the process looks whether its parent lives. Usually its input has ended
// before.
const parentEvery = 250 * time.Millisecond

func newHold() *cobra.Command {
	var o leaseOptions
	verbose := false
	cmd := &cobra.Command{
		Use:               "hold [flags] NAME",
		Short:             "Hold a lock for a program in any language",
		Long:              holdLong,
		Example:           holdExample,
		Args:              oneName("NAME", true),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := o.acquirer(cmd, args[0], "locker (hold)")
			if err != nil {
				return err
			}
			k := &keeper{acquirer: a, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), verbose: verbose}
			return k.run()
		},
	}
	o.addTo(cmd, "HOST/PID/locker (hold)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print a line with the new deadline after each renewal")
	return cmd
}

// keeper keeps a lock for the program that has started this one.
type keeper struct {
	*acquirer
	in      io.Reader
	out     io.Writer
	verbose bool
	dialog  *dialog.Dialog
	late    os.Signal // the last one that cancel has got after the end of the lease; giveBack gets it; nil: none

	unannounced bool // the input ended at the grant, so the program doesn't know of the lease
}

// run gets the lock, and keeps it until the program doesn't want it any more or it is lost.
func (k *keeper) run() error {
	surviveBrokenPipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	k.dialog = dialog.Start(k.name, k.in, k.out)
	k.gone = untilGone(ctx, k.dialog.Ended())
	l, lease, err := k.obtain()
	if err == nil && k.verbose {
		if wrong := k.announceRenewals(l); wrong != nil {
			err = lockFailure(wrong)
		}
	}
	if err != nil {
		e := k.end(l)
		e.unconfirmed = lease != nil
		e.close()
		return err
	}
	untold := k.keep(ctx, cancel, lease)
	if exit := k.giveBack(l, lease); exit != nil {
		return exit
	}
	if untold != nil {
		return &exitError{code: exitOutput, err: untold}
	}
	if exit := interruption(ctx); exit != nil || !k.unannounced {
		return exit
	}
	return k.unwanted()
}

// untilGone returns a channel that is closed when the input has ended, or the process that has
// started this one. The kernel's signal for the end of a parent is no help: it comes when the
// thread ends that has started this process.
func untilGone(ctx context.Context, ended <-chan struct{}) <-chan struct{} {
	gone := make(chan struct{})
	parent := os.Getppid()
	go func() {
		ticker := time.NewTicker(parentEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				close(gone)
				return
			case <-ticker.C:
				if os.Getppid() != parent {
					close(gone)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return gone
}

// announceRenewals has the new deadline announced after each renewal.
func (k *keeper) announceRenewals(l locker.Locker) error {
	renewed := observe.Func(func(context.Context, locker.Event) { k.dialog.Renewed() })
	_, err := locker.Observe(l, renewed, locker.EventRenewed)
	return err
}

// keep keeps the lease until it is lost, or the program doesn't want it any more. After that only giveBack gets
// signals, also the one in k.late.
func (k *keeper) keep(ctx context.Context, cancel context.CancelCauseFunc, lease locker.Lease) (untold error) {
	deaf := make(chan struct{})
	go func() {
		defer close(deaf)
		k.cancel(ctx, cancel)
	}()
	untold = k.dialog.Keep(ctx, lease)
	cancel(nil)
	<-deaf
	return untold
}

// cancel ends ctx when the lease is not wanted any more.
func (k *keeper) cancel(ctx context.Context, cancel context.CancelCauseFunc) {
	byHand := isTerminal(k.in)
	for {
		select {
		case <-k.gone:
			cancel(nil)
			return
		case sig := <-k.signals:
			if !byHand && !endsHold(sig) {
				if ctx.Err() != nil {
					k.late = sig
				}
				continue
			}
			exit := &exitError{code: exitSignal + signalNumber(sig), interrupt: k.tty.interruption(sig, false)}
			if cancel(exit); context.Cause(ctx) != exit { //nolint:errorlint // the same one
				k.late = sig
			}
		case <-ctx.Done():
			return
		}
	}
}

// giveBack releases the lease, and says what became of it as the last line.
func (k *keeper) giveBack(l locker.Locker, lease locker.Lease) error {
	e := k.end(l)
	defer e.close()
	if k.late != nil {
		e.heed(k.late)
	}
	err := e.release(lease)
	if errors.Is(err, locker.ErrLost) {
		_ = k.dialog.Lost(err) // the exit code says it as well
		return &exitError{code: exitLost, err: err}
	}
	switch err := k.dialog.Released(err); { // close tries again what isn't confirmed, and says why that failed
	case errors.Is(err, dialog.ErrUnannounced):
		k.unannounced = true
	case err != nil:
		return &exitError{code: exitOutput, err: err}
	}
	return nil
}
