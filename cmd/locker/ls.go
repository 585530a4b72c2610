package main

import (
	"cmp"
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

const lsLong = `Lists the locks that are held or waited for, of all programs that use the backend. PREFIX is how
their names begin. Nothing changes on the service.

HELD is for how long the lock has been held, by the service's clock. With "≤" the service doesn't
know when the holder got the lock, and the time is since the holder began to wait. ENDS IN is when
others can get the lock if its holder is silent from now on. HOLDER is what the holder says of
itself: HOST/PID/PROGRAM unless it has set another text; if it says nothing, its session or owner.
What the service doesn't know is left out.

"NAME, permit 3" is a permit of NAME (see locker run --permits), and no lock of that name. A caller
that waits for a permit of NAME is shown in "NAME, line for permits". In JSON they have a slot: 3
and -1. The first in the line waits for several permits at the same time; the sum at the end
counts it once, and doesn't count the line as a lock.

--held-longer compares a time with "≤" like any other, so such a lock may have been held for less.
If the service doesn't know since when a lock is held, the lock is left out, with a warning. If the
service doesn't know it for any lock that a Locker holds, the exit code is 116. On Postgres that
also happens while all locks that are held are younger than a third of their TTL.

If the service doesn't know the names of all locks, ls with PREFIX lists those that it knows, with a
warning. If it knows none that begin with PREFIX, the exit code is 116.

The exit code is 0. With --check it is 1 if a lock is listed, for cron and monitoring. The others:

  116  usage: bad arguments, or a backend that can't tell; with --check also if no lock is listed,
       and there may be one
  117  the lock service failed`

const lsExample = `  locker ls invoices/
  locker ls --sort held --format json
  locker ls --holder web-7f9c/
  locker ls --held-longer 1h --check; [ $? -eq 1 ] && echo "somebody has forgotten a lock"`

// lsOptions are the flags of ls.
type lsOptions struct {
	backend    string
	format     string
	sort       string
	waiters    int
	heldLonger time.Duration
	holder     string
	check      bool
}

var (
	lsFormats = []string{"text", "json", "ndjson"}
	lsSorts   = []string{"name", "held", "waiting"}
)

func newLs() *cobra.Command {
	o := lsOptions{format: lsFormats[0], sort: lsSorts[0]}
	cmd := &cobra.Command{
		Use:               "ls [flags] [PREFIX]",
		Short:             "List the locks that are held or waited for",
		Long:              lsLong,
		Example:           lsExample,
		Args:              oneName("PREFIX", false),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&o.format, "format", o.format, strings.Join(lsFormats, ", "))
	flags.StringVar(&o.sort, "sort", o.sort, strings.Join(lsSorts, ", "))
	flags.IntVar(&o.waiters, "waiters", 0, "waiters to show of each lock, in json and ndjson")
	flags.DurationVar(&o.heldLonger, "held-longer", 0, "only locks that have been held for longer than this")
	flags.StringVar(&o.holder, "holder", "", "only locks whose holder's text contains `TEXT`")
	flags.BoolVar(&o.check, "check", false, "exit code 1 if a lock is listed")
	mustComplete(cmd, "format", lsFormats)
	mustComplete(cmd, "sort", lsSorts)
	mustComplete(cmd, "backend", nil)
	return cmd
}

func (o *lsOptions) run(cmd *cobra.Command, prefix string) error {
	switch {
	case !slices.Contains(lsFormats, o.format):
		return unknownFormat(o.format, strings.Join(lsFormats, ", "))
	case !slices.Contains(lsSorts, o.sort):
		return fmt.Errorf("--sort: %s is unknown (known: %s)", plain.Quote(o.sort), strings.Join(lsSorts, ", "))
	case o.heldLonger < 0:
		return errors.New("--held-longer must not be negative: want a time such as 1h")
	case o.waiters < 0:
		return errors.New("--waiters must not be negative")
	}
	ctx := contextOf(cmd)
	l, err := openInspector(ctx, o.backend, cmd.Flags().Changed("backend"))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // it has nothing to release
	return o.list(ctx, cmd, l, prefix)
}

func (o *lsOptions) list(ctx context.Context, cmd *cobra.Command, l locker.Locker, prefix string) error {
	began := time.Now()
	all, leftOut, err := listed(ctx, l, prefix, o.waiters)
	if err != nil {
		return lockFailure(err)
	}
	var rows []statusRow
	var held heldRows
	for _, s := range all {
		row := rowOf(l.Guarantees().Backend, s, began)
		if o.holder != "" && (row.Holder == nil || !strings.Contains(row.Holder.Label, o.holder)) {
			continue
		}
		if o.heldLonger > 0 && !held.longer(row, o.heldLonger) {
			continue
		}
		rows = append(rows, row)
	}
	if len(held.unknown) > 0 {
		text := fmt.Sprintf("--held-longer: %s doesn't tell since when these are held: %s", l.Guarantees().Backend, held.names())
		if held.never() {
			return &exitError{code: exitUsage, err: errors.New(text)}
		}
		flush(sayAside(cmd.ErrOrStderr(), text))
	}
	o.order(rows)
	if err := output(cmd, o.render(rows, time.Since(began))); err != nil {
		return err
	}
	return answer(cmd, leftOut, o.check, len(rows) > 0, exitChecked, 0)
}

// heldRows is what --held-longer knows of the locks that are held.
type heldRows struct {
	known     int         // locks of which the service knows since when they are held
	strangers int         // locks of whose holders it knows nothing: somebody else has written something there
	unknown   []statusRow // all others, and the strangers
}

// longer reports whether a lock has been held, perhaps, for longer than limit.
func (h *heldRows) longer(row statusRow, limit time.Duration) bool {
	switch {
	case row.Holder == nil:
		return false
	case row.held() < 0:
		h.unknown = append(h.unknown, row)
		if *row.Holder == (partyRow{ExpiresMS: row.Holder.ExpiresMS}) {
			h.strangers++
		}
		return false
	}
	h.known++
	return row.held() > limit
}

// never reports whether the service tells of no Locker since when it has a lock.
func (h *heldRows) never() bool { return h.known == 0 && len(h.unknown) > h.strangers }

// names are the first of the locks of which it isn't known since when they are held.
func (h *heldRows) names() string {
	const most = 5
	var titles []string
	for _, row := range h.unknown[:min(len(h.unknown), most)] {
		titles = append(titles, row.title())
	}
	text := strings.Join(titles, ", ")
	if more := len(h.unknown) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// order sorts the rows: by name, or the largest first.
func (o *lsOptions) order(rows []statusRow) {
	slices.SortFunc(rows, func(a, b statusRow) int {
		by := 0
		switch o.sort {
		case "held":
			by = cmp.Compare(b.held(), a.held())
		case "waiting":
			by = cmp.Compare(b.Waiting, a.Waiting)
		}
		return cmp.Or(by, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Key, b.Key))
	})
}

func (o *lsOptions) render(rows []statusRow, took time.Duration) string {
	switch o.format {
	case "json":
		return rowsJSON(rows)
	case "ndjson":
		return rowsNDJSON(rows)
	}
	return rowsText(rows, took)
}
