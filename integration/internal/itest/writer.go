//go:build unix

package itest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// order is the task that a writer gets at its start.
type order struct {
	Name     string
	TTL      time.Duration
	Sections int
}

// word is a message of a writer: it asks the storage, which is in another process, or announces
// that the writer stops itself.
type word struct {
	Do    string // read, write or stop
	Token locker.Token
	Seen  reading
}

// reply is the answer to a word. The answer to stop comes after the process was resumed.
type reply struct {
	Seen reading
	OK   bool
}

// writer stops its process in the middle of each critical section, and then writes, whether its
// lease is lost or not.
type writer struct {
	order
	locker locker.Locker
	say    *json.Encoder
	hear   *json.Decoder
}

// work is the main function of a writer's process.
func work(l locker.Locker, in io.Reader, out io.Writer) error {
	w := writer{locker: l, say: json.NewEncoder(out), hear: json.NewDecoder(in)}
	if err := w.hear.Decode(&w.order); err != nil {
		return err
	}
	for range w.Sections {
		if err := w.section(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) section() error {
	ctx, cancel := context.WithTimeout(context.Background(), step.Limit)
	defer cancel()
	lease, err := w.locker.Acquire(ctx, w.Name, locker.WithTTL(w.TTL))
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	token := lease.Token()
	read, err := w.ask(word{Do: "read", Token: token})
	if err != nil || !read.OK { // on a busy machine the read itself may be too late
		return err
	}
	if err := w.stop(token); err != nil {
		return err
	}
	look := lease.Err()
	_, err = w.ask(word{Do: "write", Token: token, Seen: read.Seen})
	if !errors.Is(look, locker.ErrLost) {
		return errors.New("the first look at the lease after waking didn't show its loss, and another has had the lock")
	}
	return err
}

// stop has the system stop this process, with all its threads, until another process resumes it.
func (w *writer) stop(token locker.Token) error {
	if err := w.say.Encode(word{Do: "stop", Token: token}); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	return w.hear.Decode(new(reply))
}

func (w *writer) ask(what word) (answer reply, err error) {
	if err := w.say.Encode(what); err != nil {
		return reply{}, err
	}
	err = w.hear.Decode(&answer)
	return answer, err
}
