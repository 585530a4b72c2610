//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/fencedlock/locker/cmd/locker/internal/bench"
)

// holdElsewhere starts processes of this program that hold a lock, for bench.
func holdElsewhere(url string, ttl time.Duration) func(context.Context, string) (bench.Process, error) {
	return func(ctx context.Context, name string) (bench.Process, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args := []string{"hold", "--no-wait"}
		if ttl > 0 {
			args = append(args, "--ttl", ttl.String())
		}
		p := &holdingProcess{cmd: exec.Command(self, append(args, name)...), ended: make(chan struct{})}
		p.cmd.Env = append(os.Environ(), envURL+"="+url)
		// A group of its own, so that a Ctrl-C reaches this process alone, which ends it.
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		p.cmd.Stderr = &p.stderr
		if err := p.start(ctx); err != nil {
			return nil, fmt.Errorf("a process that holds a lock: %w", err)
		}
		return p, nil
	}
}

// holdingProcess is a locker hold.
type holdingProcess struct {
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	stderr strings.Builder
	ended  chan struct{}
}

const (
	// holdStart is how long a process may need until it has the lock.
	holdStart = 20 * time.Second
	// holdEnd is how long it may need to release it.
	holdEnd = 10 * time.Second
)

// start returns when the process has the lock.
func (p *holdingProcess) start(ctx context.Context) error {
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	first := make(chan string, 1)
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		if lines.Scan() {
			first <- lines.Text()
		}
		for lines.Scan() {
		}
		_ = p.cmd.Wait()
		close(first)
	}()
	timer := time.NewTimer(holdStart)
	defer timer.Stop()
	select {
	case line := <-first:
		var granted struct{ Event string }
		if json.Unmarshal([]byte(line), &granted) == nil && granted.Event == "granted" {
			return nil
		}
		<-p.ended
		return fmt.Errorf("%v: %s", p.cmd.ProcessState, strings.TrimSpace(p.stderr.String()))
	case <-timer.C:
		err = fmt.Errorf("it hasn't got the lock in %v", holdStart)
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = p.End()
	return err
}

func (p *holdingProcess) Stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *holdingProcess) Kill() error { return p.cmd.Process.Kill() }

// End has the process release the lock, and kills it if that takes long.
func (p *holdingProcess) End() error {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	timer := time.NewTimer(holdEnd)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		err := p.Kill()
		<-p.ended
		return err
	}
}
