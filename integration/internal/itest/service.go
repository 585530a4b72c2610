//go:build unix

package itest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
)

// Lazily starts a service when the first test of the run wants it. All tests share it.
func Lazily[S any](image string, start func(context.Context, string) (S, error)) func(*testing.T) S {
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

// SharedNetwork starts a container that does nothing but publish ports. Servers that tell their addresses to each other and to
// clients share its network: so 127.0.0.1 and a port is the same server from inside and from outside, on every machine, and each
// of them can be killed without taking the others' network away.
func SharedNetwork(ctx context.Context, image string, ports []int) (*Container, error) {
	return Start(ctx, Spec{Image: image, Args: []string{"sleep", "infinity"}, Ports: ports})
}

// Until asks again and again until there is no error.
func Until(ctx context.Context, check func(context.Context) error) error {
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

// Docker has the engine do something to containers.
func Docker(t conformance.T, ids []string, args ...string) {
	t.Helper()
	Must(t, func(ctx context.Context) error {
		_, err := images.Docker(ctx, append(args, ids...)...)
		return err
	})
}

// Must bounds what is done to a service, also when t's own context is over.
func Must(t conformance.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("%v", err)
	}
}

// Started starts a service for one test.
func Started[S any](t *testing.T, image string, start func(context.Context, string) (S, error)) S {
	t.Helper()
	return Lazily(image, start)(t)
}
