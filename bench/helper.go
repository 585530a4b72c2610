package main

import (
	"context"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// A helper is a process that does a part of the work: a network with a delay, a CPU that stays
// awake, the clients of another commit. It is this program again, with the name of the helper as its
// first argument. Its methods are called over its standard input and output. It ends when its input
// does, so also if this process is killed.

// helpers are the receivers of the calls, by the name of the helper.
var helpers = map[string]func() any{
	"awake":  func() any { return new(Awake) },
	"delay":  func() any { return new(Delay) },
	"worker": func() any { return new(Worker) },
}

// serveHelper makes this process a helper, if its arguments say so. It returns false if they don't.
func serveHelper() bool {
	if len(os.Args) != 2 || helpers[os.Args[1]] == nil {
		return false
	}
	signal.Ignore(os.Interrupt) // the terminal sends it to all; the input ends when the bench does
	server := rpc.NewServer()
	if err := server.Register(helpers[os.Args[1]]()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	server.ServeConn(stream{os.Stdin, os.Stdout})
	return true
}

// stream joins an input and an output.
type stream struct {
	io.Reader
	io.WriteCloser
}

// helper is a running one.
type helper struct {
	calls *rpc.Client
	cmd   *exec.Cmd
}

// selfPath is the file of this program.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// startHelper starts the helper with that name. program may be the executable of another commit.
func startHelper(ctx context.Context, program, name string) (*helper, error) {
	// It must outlive an interrupt, so that what uses it can end in order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &helper{calls: rpc.NewClient(stream{out, in}), cmd: cmd}, nil
}

// call calls a method, and doesn't wait for its answer after ctx has ended.
func (h *helper) call(ctx context.Context, method string, args, reply any) error {
	call := h.calls.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopTime is how long a helper gets to end by itself, and then to be killed.
const stopTime = 5 * time.Second

// stop ends the helper. One that has the lowest priority can't even be killed while others use its
// CPU all the time. That one is left alone, and ends when this process does.
func (h *helper) stop() {
	_ = h.calls.Close() // closes its input
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.cmd.Wait()
	}()
	select {
	case <-ended:
		return
	case <-time.After(stopTime):
	}
	_ = h.cmd.Process.Kill()
	select {
	case <-ended:
	case <-time.After(stopTime):
	}
}
