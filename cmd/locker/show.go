package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

const showLong = `Shows who holds the lock NAME and who waits for it. Nothing changes on the service.

What the service doesn't know is left out. "waiting ?" says that it doesn't know who waits.

The exit code is 0. With --check it is 1 if nobody holds the lock. The others:

  116  usage: bad arguments, or a backend that can't tell
  117  the lock service failed`

var showFormats = []string{"text", "json"}

func newShow() *cobra.Command {
	backend, format, waiters, check := "", showFormats[0], 10, false
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
			s, err := locker.Inspect(ctx, l, args[0], waiters)
			if err != nil {
				return lockFailure(err)
			}
			row := rowOf(s, time.Now())
			text := row.text(l.Guarantees().Backend)
			if format == "json" {
				text = row.json()
			}
			if err := output(cmd, text); err != nil {
				return err
			}
			if check && s.Holder == nil {
				return &exitError{code: exitChecked}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&format, "format", format, strings.Join(showFormats, ", "))
	flags.IntVar(&waiters, "waiters", waiters, "waiters to show")
	flags.BoolVar(&check, "check", false, "exit code 1 if nobody holds the lock")
	mustComplete(cmd, "format", showFormats)
	mustComplete(cmd, "backend", nil)
	return cmd
}
