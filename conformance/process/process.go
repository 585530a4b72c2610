package process

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/fencedlock/locker/conformance/step"
)

// Process is a holder in another process, or something that looks like one to the service.
type Process interface {
	// Do has the process execute one command and returns its answer. The error says that no answer
	// came.
	Do(ctx context.Context, c Command) (Answer, error)
	// Kill ends the process at once, as SIGKILL does: the process can't clean up.
	Kill()
	// Stop suspends the process, as SIGSTOP does. Continue resumes it. Stop should return when the
	// process has stopped, which with SIGSTOP may be a little later.
	Stop()
	Continue()
}

// New returns a Process for something that runs [Serve]: commands go to in, and answers come from
// out. kill, stop and resume do what the methods Kill, Stop and Continue say.
func New(in io.Writer, out io.Reader, kill, stop, resume func()) Process {
	return &pipeProcess{json.NewEncoder(in), json.NewDecoder(out), kill, stop, resume}
}

// pipeProcess is a Process at the other end of two pipes.
type pipeProcess struct {
	commands *json.Encoder
	answers  *json.Decoder

	kill, stop, resume func()
}

func (p *pipeProcess) Do(ctx context.Context, c Command) (Answer, error) {
	type reply struct {
		answer Answer
		err    error
	}
	result := make(chan reply, 1)
	go func() { // ends with the process
		var r reply
		if r.err = p.commands.Encode(c); r.err == nil {
			r.err = p.answers.Decode(&r.answer)
		}
		result <- r
	}()
	select {
	case r := <-result:
		return r.answer, r.err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func (p *pipeProcess) Kill()     { p.kill() }
func (p *pipeProcess) Stop()     { p.stop() }
func (p *pipeProcess) Continue() { p.resume() }

// answerLimit is when a process that has not answered is given up. It is longer than any command of
// Serve takes.
const answerLimit = 2 * time.Minute

// MustDo has p execute a command that must succeed, and returns the answer.
func MustDo(t step.T, p Process, c Command) Answer {
	t.Helper()
	answer := Do(t, p, c)
	if answer.Error != "" {
		t.Fatalf("the process failed to %s: %s", c.Verb, answer.Error)
	}
	return answer
}

// Do has p execute a command, and returns the answer, which may be an error of the operation. An
// answer must come.
func Do(t step.T, p Process, c Command) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerLimit)
	defer cancel()
	answer, err := p.Do(ctx, c)
	if err != nil {
		t.Fatalf("no answer from the process to %s: %v", c.Verb, err)
	}
	return answer
}

// Begin has p execute a command in the background until the case ends. Nobody waits for the answer.
func Begin(t step.T, p Process, c Command) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.Do(ctx, c)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}
