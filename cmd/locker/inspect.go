package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

// exitChecked is the code of a --check that has found what it looks for.
const exitChecked = 1

// openInspector opens a backend that can tell who holds a lock, and promises more. rawURL and given
// are --backend.
func openInspector(ctx context.Context, rawURL string, given bool, more ...locker.Requirement) (locker.Locker, error) {
	rawURL, err := backendURL(rawURL, given)
	if err != nil {
		return nil, err
	}
	l, err := open(ctx, rawURL, append(more, locker.InspectionHolder))
	if err != nil {
		return nil, lockFailure(err)
	}
	return l, nil
}

// listed are the locks whose names begin with prefix. A service that keeps hashes of names, such as
// Postgres, may not know the names of all locks: then all has those that it knows, and leftOut says
// that there may be more. If it knows none, that is an error.
func listed(ctx context.Context, l locker.Locker, prefix string, waiters int) (all []locker.Status, leftOut, err error) {
	for s, err := range locker.List(ctx, l, prefix, waiters) {
		switch {
		case err == nil:
			all = append(all, s)
		case len(all) > 0 && errors.Is(err, locker.ErrNoInspector):
			return all, notAll(err), nil
		default:
			return nil, nil, err
		}
	}
	return all, nil, nil
}

func notAll(err error) error {
	var of *locker.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("not all locks are listed: %w", err)
}

// onScreen is listed for a screen, which is empty if no name is known. note says if locks are left out.
func onScreen(ctx context.Context, l locker.Locker, prefix string) (all []locker.Status, note string, err error) {
	all, leftOut, err := listed(ctx, l, prefix, 0)
	if errors.Is(err, locker.ErrNoInspector) {
		leftOut, err = notAll(err), nil
	}
	if leftOut != nil {
		note = printable(leftOut.Error())
	}
	return all, note, err
}

// answer is the end of a command that has printed what it knows, with a warning if locks are left
// out. With check the exit code says whether something was found. If nothing was, and locks are left
// out, nobody can tell.
func answer(cmd *cobra.Command, leftOut error, check, found bool, ifFound, otherwise int) error {
	switch {
	case leftOut != nil && check && !found:
		return &exitError{code: exitUsage, err: leftOut}
	case leftOut != nil:
		flush(sayAside(cmd.ErrOrStderr(), leftOut.Error()))
	}
	code := otherwise
	if found {
		code = ifFound
	}
	if !check || code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// contextOf is the command's context; cobra has none unless it was given one.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// oneName is for commands with up to one argument, the name of a lock or how names begin. A URL in
// its place is not repeated.
func oneName(what string, required bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1 || required && len(args) == 0:
			return errors.New(cmd.Name() + " wants one " + what + "; see locker " + cmd.Name() + " --help")
		case len(args) == 1 && isURL(args[0]):
			return looksLikeURL(what)
		case len(args) == 1 && (required || args[0] != ""):
			return locker.ValidName(args[0]) // before the service is asked; a prefix is a name or empty
		}
		return nil
	}
}

// noFile is for arguments that are no files.
func noFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
