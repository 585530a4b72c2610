package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

const breakLong = `Takes the lock NAME away from its holder, or with --slot a permit of NAME.

The lease of the holder is marked, and is not renewed any more. The holder finds it lost, at once or
at its next renewal, and releases the lock. A holder that is dead, stopped or cut off keeps the lock
until its TTL is over. So nobody gets the lock while the holder still believes in it.

With --now the lock passes on at once, and there may be two holders for a while. Use it only if you
know that the holder is dead and its TTL is long, or if the holder lives and doesn't stop.

A storage that checks tokens accepts the old holder's token until a larger token has claimed there.

Before anything changes, break shows the holder and asks. Without a terminal --yes is required, and
--yes requires --token: the lock may have passed on since somebody looked, and its next holder has
done nothing wrong. With another token than the holder's nothing changes. locker show prints it.

A line of JSON on the error output, and in the file of --audit, says what was done, by whom and why.

The exit code is 0 when the lease is marked or has ended, also if the result of --wait could not be
written. The others:

  1    nothing was taken away: nobody holds the lock, another lease than --token has it, or the
       answer was no; or with --wait the lock has not passed on in time
  116  usage: bad arguments, or a backend that can't take a lock away
  117  the lock service failed: the lease may be marked

128+n is the code when signal n ended it.`

const breakExample = `  locker break invoices/2026-11 --reason "hangs since 17:50, OPS-119"
  locker break invoices/2026-11 --token 81723 --reason OPS-119 --yes --wait
  locker break tape --slot 3 --reason "the drive is broken"`

// breakOptions are the flags of break.
type breakOptions struct {
	backend    string
	token      string
	slot       int
	reason     string
	audit      string
	now        bool
	withOthers bool
	yes        bool
	wait       bool
}

func newBreak() *cobra.Command {
	var o breakOptions
	cmd := &cobra.Command{
		Use:               "break [flags] NAME",
		Short:             "Take a lock away from its holder",
		Long:              breakLong,
		Example:           breakExample,
		Args:              oneName("NAME", true),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := o.breaking(cmd, args[0])
			if err != nil {
				return err
			}
			surviveBrokenPipe() // nobody may read the question, or the line of JSON on stderr
			ctx, stop := untilInterrupted()
			defer stop()
			l, err := openInspector(ctx, o.backend, cmd.Flags().Changed("backend"))
			if err != nil {
				return errors.Join(interruption(ctx), err)
			}
			defer func() { _ = l.Close() }() // it has nothing to release
			return b.run(ctx, l)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&o.token, "token", "", "`token` of the lease that must have the lock (default: the one of the holder that break shows)")
	flags.IntVar(&o.slot, "slot", 0, "take away the permit of NAME on slot `N`, which locker ls shows; -1: the line of those who wait for one")
	flags.StringVar(&o.reason, "reason", "", "`TEXT` for the holder and for the audit; required")
	flags.StringVar(&o.audit, "audit", "", "append the line of JSON to this `FILE`, too")
	flags.BoolVar(&o.now, "now", false, "pass the lock on at once: there may be two holders for a while")
	flags.BoolVar(&o.withOthers, "with-others", false, "with --now: also if other leases end with this one")
	flags.BoolVarP(&o.yes, "yes", "y", false, "don't ask; requires --token")
	flags.BoolVar(&o.wait, "wait", false, "wait until the lock has passed on; without a limit if the service knows no time")
	mustComplete(cmd, "backend", nil)
	return cmd
}

// breaking is one call of break, with everything checked that needs no service.
type breaking struct {
	breakOptions
	name   string
	token  locker.Token // 0: the holder's
	breach locker.Breach
	audit  *auditLog
	in     io.Reader
	out    io.Writer
	stderr io.Writer
}

func (o breakOptions) breaking(cmd *cobra.Command, name string) (*breaking, error) {
	b := &breaking{breakOptions: o, name: name, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	if o.token != "" {
		n, err := strconv.ParseInt(o.token, 10, 64)
		if err != nil || n <= 0 {
			return nil, errors.New("--token is invalid: want the number that locker show prints, such as 1795221171926053")
		}
		b.token = locker.Token(n)
	}
	switch {
	case strings.TrimSpace(o.reason) == "":
		return nil, errors.New("--reason is required: it is shown to the holder and written to the audit line")
	case o.withOthers && !o.now:
		return nil, errors.New("--with-others needs --now")
	case !o.yes && !isTerminal(b.in):
		return nil, errors.New("break asks on a terminal; elsewhere --yes is required, with --token")
	case o.yes && b.token == 0:
		return nil, errors.New("--yes requires --token, the number that locker show prints: the lock may have passed on to another holder")
	}
	token := max(b.token, 1)
	var err error
	b.breach, err = locker.ResolveBreach(name, token, locker.Breach{By: operator(), Reason: o.reason, AtOnce: o.now, WithOthers: o.withOthers, Slot: o.slot})
	if err != nil {
		return nil, lockFailure(err)
	}
	if b.audit, err = openAudit(b.stderr, o.audit); err != nil {
		return nil, err
	}
	return b, nil
}

// operator is who calls break, as far as the environment says.
func operator() string {
	host, err := os.Hostname()
	for _, variable := range []string{"USER", "LOGNAME"} {
		text := os.Getenv(variable) + "@" + host
		if _, wrong := locker.Resolve("name", locker.WithHolder(text)); os.Getenv(variable) != "" && err == nil && wrong == nil {
			return text
		}
	}
	return locker.DefaultHolder()
}
