//go:build unix

package integration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
)

// lazily starts a service when the first test of the run wants it. All tests share it.
func lazily[S any](image string, start func(context.Context, string) (S, error)) func(*testing.T) S {
	service := sync.OnceValues(func() (S, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // an image may have to be made
		defer cancel()
		return start(ctx, image)
	})
	return func(t *testing.T) S {
		t.Helper()
		s, err := service()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// sharedNetwork starts a container that does nothing but publish ports. Servers that tell their addresses to each other and to
// clients share its network: so 127.0.0.1 and a port is the same server from inside and from outside, on every machine, and each
// of them can be killed without taking the others' network away.
func sharedNetwork(ctx context.Context, image string, ports []int) (*container, error) {
	return start(ctx, run{image: image, args: []string{"sleep", "infinity"}, ports: ports})
}

// until asks again and again until there is no error.
func until(ctx context.Context, check func(context.Context) error) error {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// docker has the engine do something to containers.
func docker(t conformance.T, ids []string, args ...string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		_, err := images.Docker(ctx, append(args, ids...)...)
		return err
	})
}

// must bounds what is done to a service, also when t's own context is over.
func must(t conformance.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("%v", err)
	}
}
