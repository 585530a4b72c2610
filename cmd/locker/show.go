package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

const showLong = `Shows who holds the lock NAME and who waits for it. Nothing changes on the service.

What the service doesn't know is left out. "waiting ?" says that it doesn't know who waits.

--slot shows one permit of NAME (see locker run --permits) in place of the lock. --permits shows all
that are held, and who waits for one. For that it lists all locks whose names begin with NAME; "ls"
lists them with all others. If the service doesn't know the names of all locks, --permits shows
those that it knows, with a warning; if it knows none, the exit code is 116.

The exit code is 0. With --check it is 1 if nobody holds the lock, or a permit. The others:

  116  usage: bad arguments, or a backend that can't tell; with --check also if no permit is shown
       and one may be held
  117  the lock service failed`

var showFormats = []string{"text", "json"}

func newShow() *cobra.Command {
	backend, format, look, permits, check := "", showFormats[0], locker.Look{Waiters: 10}, false, false
	cmd := &cobra.Command{
		Use:               "show [flags] NAME",
		Short:             "Show who holds a lock and who waits for it",
		Long:              showLong,
		Example:           "  locker show invoices/2026-11",
		Args:              oneName("NAME", true),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(showFormats, format):
				return unknownFormat(format, strings.Join(showFormats, ", "))
			case look.Waiters < 0:
				return errors.New("--waiters must not be negative")
			case permits && look.Slot != 0:
				return errors.New("--slot and --permits don't go together: --permits shows all slots")
			}
			if err := locker.ValidSlot(look.Slot); err != nil {
				return lockFailure(err)
			}
			ctx := contextOf(cmd)
			l, err := openInspector(ctx, backend, cmd.Flags().Changed("backend"))
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }() // it has nothing to release
			var text string
			var held bool
			var leftOut error
			if permits {
				text, held, leftOut, err = showPermits(ctx, l, args[0], look, format == "json")
			} else {
				text, held, err = showLock(ctx, l, args[0], look, format == "json")
			}
			if err != nil {
				return lockFailure(err)
			}
			if err := output(cmd, text); err != nil {
				return err
			}
			return answer(cmd, leftOut, check, held, 0, exitChecked)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&format, "format", format, strings.Join(showFormats, ", "))
	flags.IntVar(&look.Waiters, "waiters", look.Waiters, "waiters to show")
	flags.IntVar(&look.Slot, "slot", 0, "show the permit of NAME on slot `N` in place of the lock; -1: the line of those who wait for one")
	flags.BoolVar(&permits, "permits", false, "show the permits of NAME in place of the lock")
	flags.BoolVar(&check, "check", false, "exit code 1 if nobody holds the lock, or a permit")
	mustComplete(cmd, "format", showFormats)
	mustComplete(cmd, "backend", nil)
	return cmd
}

// showLock describes the lock called name, or a permit of that name, and reports whether it is held.
func showLock(
	ctx context.Context, l locker.Locker, name string, look locker.Look, json bool,
) (text string, held bool, err error) {
	s, err := locker.Inspect(ctx, l, name, look)
	if err != nil {
		return "", false, err
	}
	row := rowOf(l.Guarantees().Backend, s, time.Now())
	if json {
		return row.json(), s.Holder != nil, nil
	}
	return row.text(l.Guarantees().Backend), s.Holder != nil, nil
}

// showPermits describes all permits of a name, and reports whether one is held. leftOut is as from listed.
func showPermits(
	ctx context.Context, l locker.Locker, name string, look locker.Look, json bool,
) (text string, held bool, leftOut, err error) {
	all, leftOut, err := listed(ctx, l, name, look.Waiters)
	if err != nil {
		return "", false, nil, err
	}
	var rows []statusRow
	n := 0
	for _, s := range all {
		if s.Name != name || s.Slot == 0 {
			continue
		}
		rows = append(rows, rowOf(l.Guarantees().Backend, s, time.Now()))
		if s.Slot > 0 && s.Holder != nil {
			n++
		}
	}
	if len(rows) == 0 && leftOut != nil {
		return "", false, nil, leftOut
	}
	(&lsOptions{}).order(rows)
	if json {
		return rowsJSON(rows), n > 0, leftOut, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s held, %d waiting\n", shown(name), l.Guarantees().Backend, plain.Count(n, "permit"), tallyOf(rows).Waiting())
	for _, row := range rows {
		b.WriteString(row.text(l.Guarantees().Backend))
	}
	return b.String(), n > 0, leftOut, nil
}
