package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/demo"
)

const demoLong = `Shows what a fencing token is for, as it happens. Two programs, A and B, add to one balance of 100
under a lock: acquire, read, add, write. A is stopped between its read and its write for longer
than its lease, as a process is by a long garbage collection or a virtual machine by a move. B gets
the lock, and does its work. Then A wakes up and writes.

This happens twice: first on a storage that checks tokens, then on one that doesn't.

No server is needed; with --backend URL it is shown on a real one. The lock is new each time, and
nothing is left of it. With --svg FILE the timeline is also drawn: who has the lock, who waits, who
is stopped, and which write is refused.`

// minDemoTTL is long enough for this program to do its part of the story on a busy machine.
const minDemoTTL = 100 * time.Millisecond

func newDemo() *cobra.Command {
	backend := "mem://demo"
	ttl := 2 * time.Second
	svg := ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a fencing token is for",
		Long:  demoLong,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ttl < minDemoTTL {
				return fmt.Errorf("--ttl must be at least %v, so that the story can be followed", minDemoTTL)
			}
			if cmd.Flags().Changed("svg") && svg == "" {
				return errors.New("--svg is invalid: want a file, such as demo.svg")
			}
			return runDemo(cmd, backend, ttl, svg)
		},
	}
	cmd.Flags().StringVar(&backend, "backend", backend, "URL of a lock service; mem://NAME is in this process")
	cmd.Flags().DurationVar(&ttl, "ttl", ttl, "TTL of the leases; each half of the story takes a little longer")
	cmd.Flags().StringVar(&svg, "svg", "", "`FILE` for a picture of the timeline; an existing file is replaced at the end")
	_ = cmd.MarkFlagFilename("svg", "svg")
	return cmd
}

func runDemo(cmd *cobra.Command, backend string, ttl time.Duration, svg string) error {
	var pic *picture
	if svg != "" {
		var err error
		if pic, err = openPicture(svg); err != nil {
			return &exitError{code: exitOutput, err: err}
		}
		defer pic.close()
	}
	ctx, stop := untilInterrupted()
	defer stop()
	out := demo.NewText(cmd.OutOrStdout())
	var panels []demo.Panel
	for _, fenced := range []bool{true, false} {
		p, err := play(ctx, backend, ttl, fenced, out)
		if interrupt := interruption(ctx); interrupt != nil {
			return interrupt
		}
		if err != nil {
			return lockFailure(err)
		}
		if err := out.End(p.Outcome); err != nil {
			return &exitError{code: exitOutput, err: err}
		}
		panels = append(panels, p)
	}
	if pic != nil {
		if err := pic.draw(panels); err != nil {
			return &exitError{code: exitOutput, err: err}
		}
	}
	return nil
}

func play(ctx context.Context, backend string, ttl time.Duration, fenced bool, out *demo.Text) (demo.Panel, error) {
	p := demo.Panel{Fenced: fenced}
	var both [2]locker.Locker
	for i := range both {
		l, err := locker.Open(ctx, backend, locker.RequireTTL)
		if err != nil {
			return p, err
		}
		defer l.Close()
		both[i] = l
	}
	tell := func(e demo.Event) {
		if len(p.Events) == 0 { // not before the first lease was granted: what the service refuses is no story
			out.Head(fmt.Sprintf("%s (locks on %s)", demo.Title(fenced), both[0].Guarantees().Backend))
		}
		p.Events = append(p.Events, e)
		out.Event(e)
	}
	story := demo.Story{
		A: both[0], B: both[1], TTL: ttl, Fenced: fenced, Tell: tell,
		Name: "demo/" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	var err error
	p.Outcome, err = story.Play(ctx)
	return p, err
}
