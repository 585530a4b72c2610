package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

// The errors of cobra and pflag repeat arguments. One of them may be a URL that was put to the
// wrong place, and hold a password. So the errors of usage are made here, and repeat what can't be
// a part of one alone.

// noArgs is for commands without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("backend") != nil:
		return fmt.Errorf("%s has no arguments; the URL belongs to --backend", cmd.Name())
	}
	return fmt.Errorf("%s has no arguments; see %s --help", cmd.Name(), cmd.CommandPath())
}

// unknownCommand names a word that is no command below cmd, and the nearest ones.
func unknownCommand(cmd *cobra.Command, word string) error {
	see := "; see " + cmd.CommandPath() + " --help"
	if word == "" || !plain.Word(word) || strings.Contains(word, "=") { // it may be a URL, or have a password=…
		return errors.New("unknown command" + see)
	}
	var nearest []string
	for far := 0; far <= min(len(word)/2, 2) && len(nearest) == 0; far++ { // letters that differ
		cmd.SuggestionsMinimumDistance = far
		nearest = cmd.SuggestionsFor(word)
	}
	if len(nearest) > 0 {
		slices.Sort(nearest)
		return fmt.Errorf("unknown command %q (did you mean %s?)%s", word, strings.Join(nearest, " or "), see)
	}
	return fmt.Errorf("unknown command %q%s", word, see)
}

// withoutPath is an error of a file without its name, which may be a URL by mistake.
func withoutPath(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// isURL reports whether the name of a lock, or how names begin, may be the URL of a lock service, which messages
// must not repeat. Other URLs, such as s3://bucket/key, are names like any other.
func isURL(name string) bool {
	scheme, _, found := strings.Cut(name, "://")
	scheme = strings.ToLower(strings.TrimFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) })) // it may have been quoted
	return found && (strings.Contains(name, "@") || slices.Contains(locker.Schemes(), scheme))
}

// looksLikeURL is the error for such a name. what is NAME or PREFIX.
func looksLikeURL(what string) error {
	return errors.New(what + " looks like a URL; a URL belongs to --backend or LOCKER_URL")
}

func unknownFormat(given, known string) error {
	return fmt.Errorf("--format: %s is unknown (known: %s)", plain.Quote(given), known)
}

// flagError turns an error of package pflag into one of ours.
func flagError(cmd *cobra.Command, err error) error {
	var (
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		return fmt.Errorf("--%s is invalid: want %s", flag.Name, wanted(flag.Value.Type()))
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%.1s; see %s --help", unknown.GetSpecifiedName(), cmd.CommandPath())
	case errors.As(err, &unknown) && plain.Word(unknown.GetSpecifiedName()):
		return fmt.Errorf("unknown flag: --%s; see %s --help", unknown.GetSpecifiedName(), cmd.CommandPath())
	}
	return fmt.Errorf("bad flags; see %s --help (a URL belongs to --backend or LOCKER_URL)", cmd.CommandPath())
}

// wanted says what the value of a flag looks like.
func wanted(flagType string) string {
	switch flagType {
	case "duration":
		return "a time with its unit, such as 5s or 1m30s"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a list of words with commas between them"
}

// newHelp is cobra's help command, but for an error where that prints the help of the program and
// succeeds.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range found.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return errors.New("help: unknown command; see locker --help")
			case len(rest) > 0:
				return fmt.Errorf("help: %w", unknownCommand(found, rest[0]))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// printHelp makes help that can't be written a failure, as all other output. cobra's function for help returns
// no error, and its caller succeeds.
func printHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		usual(cmd, args)
		cmd.SetOut(out)
		if err := output(cmd, text.String()); err != nil {
			os.Exit(report(cmd.ErrOrStderr(), err))
		}
	})
}

// checkCompletion makes cobra's completion command refuse a shell that it doesn't know; it would
// print its help, and succeed.
func checkCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		panic("locker: cobra has no completion command any more")
	}
	completion.Use = "completion SHELL"
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return errors.New("completion: unknown shell (known: bash, fish, powershell, zsh)")
	}
	for _, shell := range completion.Commands() {
		shell.Args = noArgs
		script := shell.RunE
		shell.RunE = func(cmd *cobra.Command, args []string) error {
			if err := script(cmd, args); err != nil {
				return &exitError{code: exitOutput, err: err}
			}
			return nil
		}
	}
}
