package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
)

// leaseOptions are the flags of run and hold: which lock, where, and how long.
type leaseOptions struct {
	backend string
	require []string
	ttl     time.Duration
	wait    time.Duration
	maxHold time.Duration
	holder  string
	noWait  bool
	quiet   bool
}

// addTo adds the flags to a command. holder is what its holders say of themselves.
func (o *leaseOptions) addTo(cmd *cobra.Command, holder string) {
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.DurationVar(&o.wait, "wait", 0, "wait this long for the lock (default: without limit)")
	flags.BoolVar(&o.noWait, "no-wait", false, "don't wait for the lock")
	flags.DurationVar(&o.ttl, "ttl", 0, "a silent holder loses the lock after this time (default: the backend's)")
	flags.DurationVar(&o.maxHold, "max-hold", 0, "end the lease after this time (default: never)")
	flags.StringVar(&o.holder, "holder", "", "`TEXT` for locker ls and show; -: none (default: "+holder+")")
	flags.StringSliceVar(&o.require, "require", nil, "`GUARANTEE` that the backend must give (correctness, ...); may be repeated")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing about waiting, nor about a lock that is held")
	mustComplete(cmd, "require", requirementNames())
	mustComplete(cmd, "backend", nil)
}

// mustComplete gives the values of a flag to shells for completion. It panics for a flag that
// doesn't exist.
func mustComplete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// acquirer opens the backend and waits for one lock, until a signal or the end of its user's
// interest ends the wait.
type acquirer struct {
	name    string
	url     string
	flagURL bool // url is from --backend
	unset   bool // url is the default: neither --backend nor LOCKER_URL is given
	reqs    []locker.Requirement
	opts    []locker.Option
	ttl     bool          // --ttl is given
	wait    time.Duration // 0: without limit, unless noWait
	noWait  bool
	quiet   bool
	held    int // the exit code if the lock is held
	permits int // 0: the lock
	stderr  io.Writer
	signals chan os.Signal
	gone    <-chan struct{} // closed when nobody wants the lock any more; nil: only signals end the wait
	tty     terminal
}

// acquirer checks everything that can be checked without asking the service. program is what the
// holder says of itself after host and process, and opts are options of the command's own.
func (o *leaseOptions) acquirer(cmd *cobra.Command, name, program string, opts ...locker.Option) (*acquirer, error) {
	a := &acquirer{name: name, opts: opts, stderr: cmd.ErrOrStderr(), wait: o.wait, noWait: o.noWait, quiet: o.quiet, held: exitHeld}
	given := cmd.Flags().Changed
	switch {
	case isURL(name): // its password would be shown in every message
		return nil, looksLikeURL("NAME")
	case o.noWait && given("wait"):
		return nil, errors.New("--wait and --no-wait exclude each other")
	case given("wait") && o.wait <= 0:
		return nil, errors.New("--wait must be positive, such as 5m; --no-wait doesn't wait at all")
	}
	if o.noWait {
		a.opts = append(a.opts, locker.NoWait())
	}
	if a.ttl = given("ttl"); a.ttl {
		a.opts = append(a.opts, locker.WithTTL(o.ttl))
	}
	if given("max-hold") {
		a.opts = append(a.opts, locker.WithMaxHold(o.maxHold))
	}
	if given("holder") {
		a.opts = append(a.opts, locker.WithHolder(o.holder))
	}
	if _, err := locker.Resolve(name, a.opts...); err != nil {
		return nil, err
	}
	var err error
	if a.reqs, err = parseRequirements(o.require); err != nil {
		return nil, err
	}
	if a.url, err = backendURL(o.backend, given("backend")); err != nil {
		return nil, err
	}
	a.flagURL = given("backend")
	if _, set := os.LookupEnv(envURL); !a.flagURL && !set {
		a.unset = true
	}
	if u, err := url.Parse(a.url); !given("holder") && (err != nil || !u.Query().Has("holder")) {
		a.opts = append(a.opts, locker.WithHolder(holderOf(program)))
	}
	return a, nil
}

// holderOf is what this process says of itself as the holder for a program.
func holderOf(program string) string {
	own := locker.DefaultHolder()
	text := own[:strings.LastIndexByte(own, '/')+1] + program
	if _, err := locker.Resolve("name", locker.WithHolder(text)); err != nil { // the program's name is too long, or can't be shown
		return own
	}
	return text
}

// obtain opens the backend and gets the lock. The caller closes what it returns, in any case.
func (a *acquirer) obtain() (locker.Locker, locker.Lease, error) {
	a.signals = make(chan os.Signal, 16)
	catch(a.signals, endingSignals)
	a.tty = openTerminal()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if a.wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, a.wait)
		defer stop()
	}
	l, err := await(a, cancel, nil, func() (locker.Locker, error) { return open(ctx, a.url, a.reqs) })
	if err != nil {
		return l, nil, a.explainOpen(err)
	}
	lease, err := await(a, cancel, a.tellOfWait, func() (locker.Lease, error) { return a.acquire(ctx, l) })
	if err != nil {
		return l, nil, a.explain(err, l.Guarantees())
	}
	return l, lease, nil
}

// acquire waits for the lock, unless a locker run around this one has it, or those around it have all
// permits. They may have lost it, so this one tries once.
func (a *acquirer) acquire(ctx context.Context, l locker.Locker) (locker.Lease, error) {
	opts := a.opts
	around := heldAround(a.url, a.subject(), max(a.permits, 1))
	if around != nil {
		opts = append(slices.Clone(opts), locker.NoWait())
	}
	lease, err := a.ask(ctx, l, opts)
	if around != nil && errors.Is(err, locker.ErrHeld) {
		err = around
	}
	return lease, err
}

func (a *acquirer) ask(ctx context.Context, l locker.Locker, opts []locker.Option) (locker.Lease, error) {
	if a.permits > 0 {
		return locker.AcquirePermit(ctx, l, a.name, a.permits, opts...)
	}
	return l.Acquire(ctx, a.name, opts...)
}

// subject is the name of the lock; for permits it is a text that is no name.
func (a *acquirer) subject() string {
	if a.permits > 0 {
		return a.name + "\x00permits"
	}
	return a.name
}

// explainOpen says where the backend comes from that promises less than --require asks for, if nobody has named it.
func (a *acquirer) explainOpen(err error) error {
	var exit *exitError
	if a.unset && errors.As(err, &exit) && errors.Is(err, locker.ErrGuarantee) {
		exit.err = fmt.Errorf("%w (without LOCKER_URL and --backend, locks are files of this machine)", exit.err)
	}
	return err
}

// explain adds the flag that caused an error, and drops what the user doesn't want to read.
func (a *acquirer) explain(err error, g locker.Guarantees) error {
	var exit *exitError
	if !errors.As(err, &exit) {
		return err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported) && a.ttl && !g.Expiry.TTL:
		exit.err = fmt.Errorf("%w (--ttl: a lock of %s is not freed by time, but when its %v)", exit.err, g.Backend, g.Expiry)
	case errors.Is(err, locker.ErrHeld):
		exit.code = a.held
		switch {
		case a.quiet:
			exit.err = nil
		case locker.InspectionHolder.Check(g) == nil:
			exit.err = fmt.Errorf("%w; %s says who has it", exit.err, a.showCommand())
		}
	}
	return exit
}

// showCommand is the command that shows who has the lock or the permits. It contains no URL, and no name that a
// shell would not take as it is.
func (a *acquirer) showCommand() string {
	command := "locker show"
	if a.flagURL {
		command += " --backend URL"
	}
	if a.permits > 0 {
		command += " --permits"
	}
	if strings.HasPrefix(a.name, "-") || strings.ContainsFunc(a.name, special) {
		return command + " NAME"
	}
	return command + " " + a.name
}

// special reports whether a shell may act on r.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@%+,", r)
}
