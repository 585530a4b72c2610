// Package dialog is what locker hold says about a lock to the program that has started it, and what
// that program asks.
package dialog

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fencedlock/locker"
)

// patience is how long a reader that has stalled may keep the end waiting.
const patience = time.Second

// Dialog is the conversation about one lock. One goroutine reads requests and another one answers
// them, so that a reader that has stalled delays neither a release nor the end of the input.
type Dialog struct {
	name string
	out  io.Writer

	requests chan request      // closed at the end of the input
	ended    chan struct{}     // the same, but it is known before the last requests are answered
	granted  chan locker.Lease // the lease to announce
	told     chan error        // the result of its announcement
	renewed  chan struct{}     // a new deadline is to be announced
	stop     chan struct{}     // closed: no line any more but the last
	written  chan struct{}     // closed when the answering goroutine has ended
	err      error             // the first of writing; of that goroutine until written is closed

	announced bool // a line says that the lock is granted; of that goroutine until written is closed
}

// Start begins the conversation about the lock called name.
func Start(name string, in io.Reader, out io.Writer) *Dialog {
	d := &Dialog{
		name: name, out: out,
		requests: make(chan request, maxPending),
		ended:    make(chan struct{}),
		granted:  make(chan locker.Lease, 1),
		told:     make(chan error, 1),
		renewed:  make(chan struct{}, 1),
		stop:     make(chan struct{}),
		written:  make(chan struct{}),
	}
	go func() {
		defer close(d.ended)
		defer close(d.requests)
		readRequests(in, d.requests)
	}()
	go func() {
		defer close(d.written)
		d.answer()
	}()
	return d
}

// Ended is closed at the end of the input.
func (d *Dialog) Ended() <-chan struct{} { return d.ended }

// Renewed announces the new deadline of the lease that Keep keeps. It doesn't wait.
func (d *Dialog) Renewed() {
	select {
	case d.renewed <- struct{}{}:
	default: // one is to be announced already, and will have this deadline
	}
}

// Keep announces the lease, and answers until it has ended, the input has, or ctx is done. The error
// says that the announcement failed, so nobody knows of the lease. It is called once; Released or
// Lost follows.
func (d *Dialog) Keep(ctx context.Context, lease locker.Lease) error {
	d.granted <- lease
	told := d.told
	for {
		select {
		case err := <-told:
			if err != nil {
				return err
			}
			told = nil
			continue
		case <-lease.Done():
		case <-ctx.Done():
		case <-d.ended:
		}
		select {
		case <-d.ended:
			d.drain() // what was asked before the end is about the lease
		default:
		}
		return nil
	}
}

// drain waits until all requests are answered, for a limited time.
func (d *Dialog) drain() bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-d.written:
		return true
	case <-timer.C:
		return false
	}
}

// answer answers requests until the input has ended, the lease has, or stop is closed.
func (d *Dialog) answer() {
	var lease locker.Lease
	for {
		var next line
		announces := false
		select {
		case <-d.stop:
			return
		case lease = <-d.granted:
			announces = true
			next = line{Event: eventGranted, Name: d.name, Token: lease.Token().String(), deadline: deadlineOf(lease)}
		case <-d.renewed:
			if lease == nil {
				continue // its announcement has the new deadline
			}
			next = line{Event: eventRenewed, deadline: deadlineOf(lease)}
		case r, open := <-d.requests:
			switch {
			case !open:
				return
			case r.invalid != "":
				next = line{Event: eventError, Error: r.invalid}
			case lease == nil:
				next = line{Event: eventWaiting, Name: d.name}
			default:
				next = line{Event: eventHeld, deadline: deadlineOf(lease)}
			}
		}
		// Err reads the clock, so the first line after a stop of this process is not about a lease
		// that was lost meanwhile.
		if lease != nil && lease.Err() != nil {
			return
		}
		err := d.say(next)
		if announces {
			d.announced = err == nil
			d.told <- err
		}
	}
}

// say writes a line, unless an earlier one couldn't be written.
func (d *Dialog) say(l line) error {
	if d.err == nil {
		_, d.err = d.out.Write(l.text())
	}
	return d.err
}

// Released says that the lease was released, as the last line. unconfirmed is why the service
// hasn't confirmed it, or nil. If nobody was told of the lease, because the input ended at its grant,
// there is no line, and the error is ErrUnannounced.
func (d *Dialog) Released(unconfirmed error) error {
	last := line{Event: eventReleased}
	if unconfirmed != nil {
		last.Error = unconfirmed.Error()
	}
	return d.end(last)
}

// Lost says why the lease was lost, as the last line.
func (d *Dialog) Lost(cause error) error {
	return d.end(line{Event: eventLost, Cause: locker.LossOf(cause), Error: cause.Error()})
}

// ErrUnannounced says that the lease was not announced, so that its end needs no line.
var ErrUnannounced = errors.New("the lease was not announced")

var errStalled = errors.New("nobody reads the output")

// end writes the last line. Its error is the first of all writing.
func (d *Dialog) end(last line) error {
	close(d.stop)
	if !d.drain() {
		return errStalled
	}
	if last.Event == eventReleased && !d.announced && d.err == nil {
		return ErrUnannounced
	}
	said := make(chan error, 1)
	go func() { said <- d.say(last) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-said:
		return err
	case <-timer.C:
		return errStalled
	}
}
