// Package top shows the locks of a service on a terminal while they change.
package top

import (
	"context"
	"io"
	"time"

	"github.com/fencedlock/locker/cmd/locker/internal/pace"
)

// Row is a lock as it is shown. What isn't known is "-" or "?".
type Row struct {
	Key     string // what distinguishes it from the others
	Name    string // empty: the service doesn't know it
	Slot    int    // of a permit, or the line; 0: it is the lock called Name
	Free    bool   // nobody holds it
	Title   string
	Held    string
	Waiting string
	Token   string
	Holder  string

	HeldFor time.Duration // to sort by; negative: not known
	Waiters int           // to sort by; negative: not known
}

// Screen is what to show and where.
type Screen struct {
	Title string // the first line
	Every time.Duration
	In    io.Reader // keys; the terminal doesn't echo them, and gives each at once
	Out   io.Writer
	Size  func() (width, height int)

	// List returns all locks, or those that are known: then note says in words which ones are left out.
	// Detail returns all that is known of the lock of a row that has a name, as lines. Question says who
	// has the lock of a row and what Break will do, in lines, and asks. Break takes that lock away from
	// the lease of the row, and from no other one, and says in words what it has done. All are called by
	// one goroutine, one call after the other.
	List     func(ctx context.Context) (rows []Row, note string, err error)
	Detail   func(ctx context.Context, row Row) (string, error)
	Question func(ctx context.Context, row Row, atOnce bool) (string, error)
	Break    func(ctx context.Context, row Row, atOnce bool, reason string) (string, error)
}

// What terminals do with these is in ECMA-48 and in xterm's documentation of control sequences.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, no line breaks of the terminal's own
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	clean = "\x1b[K" // to the end of the line
	below = "\x1b[J" // to the end of the screen
)

// found is what one look has found.
type found struct {
	rows   []Row
	note   string // which locks rows leaves out; empty: none
	detail string // of the lock that is open
	of     string // its key
	took   time.Duration
	err    error
}

// Run shows the locks until q or Ctrl-C is typed, or ctx ends, which isn't an error. A look that fails
// is shown, and the next one follows. The goroutine that reads In ends with the end of In.
func (s Screen) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	if _, err := io.WriteString(s.Out, enter); err != nil {
		cancel()
		return err
	}
	c := calls{looks: make(chan found), opened: make(chan Row, 1), steps: make(chan step, 1), answers: make(chan answer)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.look(ctx, c)
	}()
	err := s.show(ctx, keysOf(s.In), c)
	cancel()
	<-ended
	if _, left := io.WriteString(s.Out, leave); err == nil {
		err = left
	}
	return err
}

// calls are what the goroutine of the screen and the one that asks the service say to each other.
type calls struct {
	looks   chan found
	opened  chan Row
	steps   chan step
	answers chan answer
}

// look asks the service again and again, and at once when a lock is opened or to be taken away.
func (s Screen) look(ctx context.Context, c calls) {
	var row Row
	for ctx.Err() == nil {
		began := time.Now()
		f := found{of: row.Key}
		f.rows, f.note, f.err = s.List(ctx)
		if f.err == nil && row.Name != "" {
			f.detail, f.err = s.Detail(ctx, row)
		}
		f.took = time.Since(began)
		select {
		case c.looks <- f:
		case <-ctx.Done():
			return
		}
		select {
		case row = <-c.opened:
		case step := <-c.steps:
			select {
			case c.answers <- s.do(ctx, step):
			case <-ctx.Done():
			}
		case <-time.After(pace.Pause(s.Every, f.took)):
		case <-ctx.Done():
		}
	}
}

// redraw is the longest time between two drawings of the screen, because its size may have changed.
const redraw = time.Second

func (s Screen) show(ctx context.Context, keys <-chan key, c calls) error {
	v := view{title: s.Title, every: s.Every}
	for {
		width, height := s.Size()
		if err := s.draw(v.lines(width, height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-c.looks:
			v.take(f)
		case a := <-c.answers:
			v.answered(a)
		case k, more := <-keys:
			if !more || k == keyQuit || k == 'q' && !v.types() {
				return nil
			}
			before := v.open
			v.press(k)
			if v.open.Key != before.Key {
				replace(c.opened, v.open)
			}
			if next, ready := v.next(); ready {
				replace(c.steps, next)
			}
		case <-time.After(redraw):
		}
	}
}

// replace sends v to a channel that has room for one, and doesn't wait. What is still there counts no more:
// a lock that was opened before, or the question about one that was dropped. A call of Break is never there,
// because no key has an effect until it is answered.
func replace[T any](ch chan T, v T) {
	select {
	case <-ch:
	default:
	}
	ch <- v
}

func (s Screen) draw(lines []string) error {
	text := home
	for i, line := range lines {
		if i > 0 {
			text += "\r\n"
		}
		text += line + clean
	}
	_, err := io.WriteString(s.Out, text+below)
	return err
}
