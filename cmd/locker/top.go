package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/top"
)

const topLong = `Shows on the terminal the locks that are held or waited for, while they change. PREFIX is how their
names begin. Only b and B change anything on the service.

"*" marks a lock that is new or has another holder than before, "+" a lock for which more callers
wait than before. The service is asked every 2 seconds (--every), or less often if its answers take
long: the pause is at least ten times as long as the last answer took.

  s           sort by how many wait, by for how long the lock is held, or by name
  /           show only locks with a text in name or holder: Enter keeps the filter, Escape drops it
  Up, Down    choose a lock (also k and j); Enter shows it, with those who wait; Escape goes back
  b           take the lock away from its holder, as locker break does: after a question, a reason,
              and y. B passes it on at once, and there may be two holders for a while
  q, Ctrl-C   end

What b did is written as by locker break: to the file of --audit, and to the error output at the
end.

It needs a terminal; locker ls prints the same once.

The exit code is 0, 128+n when signal n ended it, 116 for bad arguments or a backend that can't
tell, and 117 if the lock service fails at the start.`

func newTop() *cobra.Command {
	backend, every, auditFile := "", 2*time.Second, ""
	cmd := &cobra.Command{
		Use:               "top [flags] [PREFIX]",
		Short:             "Show the locks on the terminal while they change",
		Long:              topLong,
		Example:           "  locker top\n  locker top --every 500ms invoices/",
		Args:              oneName("PREFIX", false),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < minEvery {
				return fmt.Errorf("--every must be at least %v", minEvery)
			}
			in, out, err := terminals(cmd)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted()
			defer stop()
			l, err := openInspector(ctx, backend, cmd.Flags().Changed("backend"))
			if err != nil {
				return errors.Join(interruption(ctx), err)
			}
			defer func() { _ = l.Close() }() // it has nothing to release
			var aside bytes.Buffer           // the screen is on the error output, too
			defer func() { _, _ = aside.WriteTo(cmd.ErrOrStderr()) }()
			audit, err := openAudit(&aside, auditFile)
			if err != nil {
				return err
			}
			defer audit.close()
			restore, err := drawable(out)
			if err != nil {
				return fmt.Errorf("the terminal: %w", err)
			}
			defer restore()
			before, err := term.MakeRaw(int(in.Fd()))
			if err != nil {
				return fmt.Errorf("the terminal: %w", err)
			}
			defer func() { _ = term.Restore(int(in.Fd()), before) }()
			if err := topOf(l, strings.Join(args, ""), every, in, out, audit).Run(ctx); err != nil {
				return &exitError{code: exitOutput, err: err}
			}
			return interruption(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.DurationVar(&every, "every", every, "time from one list of the locks to the next")
	flags.StringVar(&auditFile, "audit", "", "append the lines of JSON about locks that b took away to this `FILE`, too")
	mustComplete(cmd, "backend", nil)
	return cmd
}

// minEvery is the shortest time from one look of top or ui to the next.
const minEvery = 100 * time.Millisecond

// terminals are the input and the output of cmd, if both are terminals.
func terminals(cmd *cobra.Command) (in, out *os.File, err error) {
	in, inOK := cmd.InOrStdin().(*os.File)
	out, outOK := cmd.OutOrStdout().(*os.File)
	if !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil, errors.New("top needs a terminal; locker ls prints the same once")
	}
	return in, out, nil
}

func topOf(l locker.Locker, prefix string, every time.Duration, in io.Reader, out *os.File, audit *auditLog) top.Screen {
	title := "locker top on " + l.Guarantees().Backend
	if prefix != "" {
		title += ", " + shown(prefix) + "…"
	}
	return top.Screen{
		Title: title, Every: every, In: in, Out: out,
		Size: func() (width, height int) {
			width, height, err := term.GetSize(int(out.Fd()))
			if err != nil || width < 1 || height < 1 {
				return 80, 24
			}
			return width, height
		},
		List: func(ctx context.Context) ([]top.Row, string, error) { return topRows(ctx, l, prefix) },
		Detail: func(ctx context.Context, row top.Row) (string, error) {
			s, err := locker.Inspect(ctx, l, row.Name, locker.Look{Slot: row.Slot, Waiters: topWaiters})
			if err != nil {
				return "", plainError(err)
			}
			return rowOf(l.Guarantees().Backend, s, time.Now()).text(l.Guarantees().Backend), nil
		},
		Question: topBreaker{l, audit}.question,
		Break:    topBreaker{l, audit}.take,
	}
}

// topRows are the locks of the screen. note says if locks are left out.
func topRows(ctx context.Context, l locker.Locker, prefix string) (rows []top.Row, note string, err error) {
	now := time.Now()
	all, note, err := onScreen(ctx, l, prefix)
	if err != nil {
		return nil, "", plainError(err)
	}
	for _, s := range all {
		rows = append(rows, topRow(rowOf(l.Guarantees().Backend, s, now)))
	}
	return rows, note, nil
}

// topWaiters are the waiters that top shows of one lock: as many as a large terminal has lines.
const topWaiters = 200

// plainError is an error in words that a terminal doesn't act on.
func plainError(err error) error { return errors.New(printable(err.Error())) }

func topRow(r statusRow) top.Row {
	token, who := r.holderText()
	return top.Row{
		Key: r.Key, Name: r.Name, Slot: r.Slot, Free: r.Holder == nil, Title: r.title(), Held: r.heldText(), Waiting: r.waitingText(), Token: token, Holder: who,
		HeldFor: r.held(), Waiters: r.Waiting,
	}
}
