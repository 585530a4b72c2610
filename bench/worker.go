package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Worker is the helper that has a client of one commit: this program, built with that commit of the
// project. The exported methods are calls.
type Worker struct{ client *client }

// WorkerArgs say what Worker.Open connects to.
type WorkerArgs struct {
	Backend string
	Addrs   []string
	CPUs    int // of the machine; a worker may use fewer
}

// Open opens a client, and closes the one before.
func (w *Worker) Open(args WorkerArgs, _ *int) error {
	if err := w.Close(0, nil); err != nil {
		return err
	}
	cpus = args.CPUs
	i := slices.IndexFunc(backends, func(b backend) bool { return b.name == args.Backend })
	if i < 0 {
		return fmt.Errorf("unknown backend %q", args.Backend)
	}
	load := backends[i].peers(args.Addrs).load
	own := slices.IndexFunc(load, func(p peer) bool { return p.name == thisProject })
	var err error
	w.client, err = load[own].open(context.Background())
	return err
}

// Close closes the client.
func (w *Worker) Close(int, *int) error {
	if w.client != nil {
		w.client.close()
	}
	w.client = nil
	return nil
}

// LoadArgs are the parameters of client.load.
type LoadArgs struct {
	Goroutines  int
	For, HangIn time.Duration
}

// Load is one round of this client.
func (w *Worker) Load(args LoadArgs, reply *Sample) (err error) {
	if w.client == nil {
		return errors.New("no client is open")
	}
	*reply, err = w.client.load(context.Background(), args.Goroutines, args.For, args.HangIn)
	return err
}

// workerPeer is this project in another process.
func workerPeer(name, backend string, addrs, commands []string, h *helper) peer {
	return peer{name: name, commands: commands, open: func(ctx context.Context) (*client, error) {
		if err := h.call(ctx, "Worker.Open", WorkerArgs{backend, addrs, cpus}, new(int)); err != nil {
			return nil, err
		}
		return &client{
			remote: func(ctx context.Context, n int, d, limit time.Duration) (Sample, error) {
				return within(ctx, d+limit+hangTime, func(ctx context.Context) (s Sample, err error) {
					err = h.call(ctx, "Worker.Load", LoadArgs{n, d, limit}, &s)
					return s, err
				})
			},
			close: func() { _ = h.call(context.Background(), "Worker.Close", 0, new(int)) },
		}, nil
	}}
}
