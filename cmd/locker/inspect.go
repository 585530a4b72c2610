package main

import (
	"context"
	"errors"

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
