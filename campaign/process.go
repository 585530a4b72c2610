package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	conformance "github.com/fencedlock/locker/conformance/process"
)

// process is a contender, as the program sees it. Only one goroutine gives it orders.
type process struct {
	cmd    *exec.Cmd
	orders *json.Encoder
	words  *json.Decoder
	stderr bytes.Buffer
	slack  time.Duration // as its library says
	gone   bool          // it can't execute orders any more
}

// startProcess returns when the contender is ready. It is killed when ctx ends.
func startProcess(ctx context.Context, t task) (*process, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	program := t.program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p := &process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text), conformance.ClockAhead(0))
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.orders, p.words = json.NewEncoder(in), json.NewDecoder(out)
	var ready request
	if err := p.words.Decode(&ready); err != nil {
		return nil, p.fail(err)
	}
	if ready.Error != "" {
		p.kill()
		return nil, fmt.Errorf("opening %s: %s", t.Library, ready.Error)
	}
	p.slack = ready.Slack
	return p, nil
}

// do gives an order, answers the requests of the contender, and returns its sections when it has
// executed the order. An error of the order itself leaves the process gone as well: what it may have
// left in the service isn't known.
func (p *process) do(o order, answer func(request) reply) ([]section, error) {
	if p.gone {
		return nil, errors.New("the process is gone")
	}
	if err := p.orders.Encode(o); err != nil {
		return nil, p.fail(err)
	}
	for {
		var r request
		if err := p.words.Decode(&r); err != nil {
			return nil, p.fail(err)
		}
		if r.Say == sayDone {
			if r.Error != "" {
				p.kill()
				return r.Sections, errors.New(r.Error)
			}
			return r.Sections, nil
		}
		if err := p.orders.Encode(answer(r)); err != nil {
			return nil, p.fail(err)
		}
	}
}

func (p *process) fail(err error) error {
	p.kill()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return fmt.Errorf("a contender ended: %w: %s", err, lines[len(lines)-1])
}

// kill ends the process at once, and waits for its end. It may be called again.
func (p *process) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	p.gone = true
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // its error says that the process was killed
}

// quit lets the process end in good order, but not for long.
func (p *process) quit() {
	if !p.gone && p.orders.Encode(order{Do: doQuit}) == nil {
		late := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait()
		late.Stop()
		p.gone = true
	}
	p.kill()
}

func (p *process) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
