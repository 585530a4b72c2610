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

--permits shows who has permits of NAME (see locker run --permits) and who waits for one, in place
of the lock. For that it lists all locks whose names begin with NAME; "ls" lists them with all
others.

The exit code is 0. With --check it is 1 if nobody holds the lock, or a permit. The others:

  116  usage: bad arguments, or a backend that can't tell
  117  the lock service failed`

var showFormats = []string{"text", "json"}

func newShow() *cobra.Command {
	backend, format, waiters, permits, check := "", showFormats[0], 10, false, false
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
			case waiters < 0:
				return errors.New("--waiters must not be negative")
			}
			ctx := contextOf(cmd)
			l, err := openInspector(ctx, backend, cmd.Flags().Changed("backend"))
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }() // it has nothing to release
			show := showLock
			if permits {
				show = showPermits
			}
			text, held, err := show(ctx, l, args[0], waiters, format == "json")
			if err != nil {
				return lockFailure(err)
			}
			if err := output(cmd, text); err != nil {
				return err
			}
			if check && !held {
				return &exitError{code: exitChecked}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&format, "format", format, strings.Join(showFormats, ", "))
	flags.IntVar(&waiters, "waiters", waiters, "waiters to show")
	flags.BoolVar(&permits, "permits", false, "show the permits of NAME in place of the lock")
	flags.BoolVar(&check, "check", false, "exit code 1 if nobody holds the lock, or a permit")
	mustComplete(cmd, "format", showFormats)
	mustComplete(cmd, "backend", nil)
	return cmd
}

// showLock describes the lock called name, and reports whether it is held.
func showLock(
	ctx context.Context, l locker.Locker, name string, waiters int, json bool,
) (text string, held bool, err error) {
	s, err := locker.Inspect(ctx, l, name, waiters)
	if err != nil {
		return "", false, err
	}
	row := rowOf(l.Guarantees().Backend, s, time.Now())
	if json {
		return row.json(), s.Holder != nil, nil
	}
	return row.text(l.Guarantees().Backend), s.Holder != nil, nil
}

// showPermits describes the permits of a name, and reports whether one is held.
func showPermits(
	ctx context.Context, l locker.Locker, name string, waiters int, json bool,
) (text string, held bool, err error) {
	var rows []statusRow
	n, waiting := 0, 0
	for s, err := range locker.List(ctx, l, name, waiters) {
		if err != nil {
			return "", false, err
		}
		if s.Name != name || s.Slot == 0 {
			continue
		}
		rows = append(rows, rowOf(l.Guarantees().Backend, s, time.Now()))
		if s.Slot > 0 && s.Holder != nil {
			n++
		}
		if s.Slot == locker.LineSlot { // its holder waits for a permit as well
			waiting = max(s.Waiting, 0)
			if s.Holder != nil {
				waiting++
			}
		}
	}
	(&lsOptions{}).order(rows)
	if json {
		return rowsJSON(rows), n > 0, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s held, %d waiting\n", shown(name), l.Guarantees().Backend, plain.Count(n, "permit"), waiting)
	for _, row := range rows {
		b.WriteString(row.text(l.Guarantees().Backend))
	}
	return b.String(), n > 0, nil
}
