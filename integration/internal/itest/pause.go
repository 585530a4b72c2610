//go:build unix

package itest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
)

// pausedWriters is a case for every backend whose leases end by time. It shows the purpose of
// fencing tokens from end to end. Processes stop themselves between their read and their write, as
// a machine that is migrated does. They continue when their lease has ended and another holder has
// written. Then they write.
var pausedWriters = conformance.Case{ID: "I0", Name: "paused-writers-are-fenced", Run: pauseWriters, Needs: locker.FencingUntilDataLoss, Hooks: []conformance.Hook{conformance.HookURL},
	Why: "no lock can keep a stale holder from writing; a token can, if the storage checks it; " +
		"without that check updates are lost"}

func pauseWriters(t conformance.T, h *conformance.Harness) {
	l, name, data := step.CloseAtEnd(t, h.Open(t)), step.LockName(t), newStorage()
	const writers = 2
	ended, stops := make(chan error, writers), make(chan struct{})
	for range writers {
		p := startWriter(t, h.URL, data, stops)
		go func() { ended <- p.serve(order{Name: name, TTL: h.TTL, Sections: 2}) }()
	}
	stopped := 0
	for running := writers; running > 0; {
		select {
		case err := <-ended:
			running--
			if err != nil {
				t.Errorf("a writer: %v", err)
			}
		case <-stops: // another holder comes, and must not wait for more than a TTL
			stopped++
			lease := step.Acquire(t, l, name, locker.WithTTL(h.TTL))
			if seen, ok := data.read(lease.Token()); ok {
				data.write(lease.Token(), seen)
			}
			if err := lease.Release(t.Context()); err != nil && !errors.Is(err, locker.ErrLost) {
				t.Errorf("Release = %v, want nil", err)
			}
		}
	}
	fenced, bare, refused := data.fenced, data.bare, data.refused
	t.Logf("%d writers were stopped; the fence has refused %d writes and acknowledged %d; without it %d of %d updates were lost",
		stopped, refused, fenced.acknowledged, bare.lost(), bare.acknowledged)
	if stopped == 0 || refused < stopped {
		t.Errorf("%d writes were refused, and %d came from stale holders", refused, stopped)
	}
	if n := fenced.lost(); n != 0 {
		t.Errorf("%d of %d updates were lost, though the token was checked", n, fenced.acknowledged)
	}
	if bare.lost() == 0 {
		t.Errorf("no update was lost without a check of the token: this case proves nothing")
	}
}

// writing is the test's side of a process that writes.
type writing struct {
	cmd   *exec.Cmd
	say   *json.Encoder
	hear  *json.Decoder
	data  *storage
	stops chan<- struct{}
	over  <-chan struct{} // closed when the case ends
}

// startWriter starts a writer's process. When the process has stopped itself, stops receives a
// value. The process is killed when the case ends.
func startWriter(t conformance.T, url string, data *storage, stops chan<- struct{}) *writing {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holderURL+"="+url, holderRole+"="+roleWriter)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	return &writing{cmd, json.NewEncoder(in), json.NewDecoder(out), data, stops, t.Context().Done()}
}

// serve answers a writer until it has finished its task, or is killed.
func (p *writing) serve(o order) error {
	err := p.say.Encode(o)
	awake := func() {}
	for err == nil {
		var w word
		err = p.hear.Decode(&w)
		awake()
		if err != nil {
			break
		}
		var r reply
		switch w.Do {
		case "read":
			r.Seen, r.OK = p.data.read(w.Token)
		case "write":
			r.OK = p.data.write(w.Token, w.Seen)
		case "stop":
			written := p.data.next()
			p.leave(written)
			awake = p.wake()
		}
		err = p.say.Encode(r)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, p.cmd.Wait())
}

// leave lets others write while the process is stopped.
func (p *writing) leave(written <-chan struct{}) {
	select {
	case p.stops <- struct{}{}:
	case <-p.over:
	}
	select {
	case <-written:
	case <-p.over:
	}
}

// wake sends SIGCONT again and again, until the function that it returns is called. On a busy
// machine a process may need more time to stop itself than others need to write.
func (p *writing) wake() (awake func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	return cancel
}
