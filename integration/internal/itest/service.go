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

// Lazily starts a service when the first test of the run needs it. All tests share it.
func Lazily[S any](image string, start func(context.Context, string) (S, error)) func(*testing.T) S {
	service := sync.OnceValues(func() (S, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // an image may have to be built
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

// SharedNetwork starts a container that only publishes ports. Servers that announce their addresses
// to each other and to clients share its network. So 127.0.0.1 and a port is the same server from
// inside and from outside, on every machine, and each server can be killed without removing the
// network of the others.
func SharedNetwork(ctx context.Context, image string, ports []int) (*Container, error) {
	return Start(ctx, Spec{Image: image, Args: []string{"sleep", "infinity"}, Ports: ports})
}

// Until repeats check until it returns no error. Between two calls it pauses for a tenth of the
// time that has passed, at least for 10 ms and at most for 100: check may be work for a busy
// service.
func Until(ctx context.Context, check func(context.Context) error) error {
	for began := time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(min(max(time.Since(began)/10, 10*time.Millisecond), 100*time.Millisecond)):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Docker runs a command of the Docker engine on containers.
func Docker(t conformance.T, ids []string, args ...string) {
	t.Helper()
	Must(t, func(ctx context.Context) error {
		_, err := images.Docker(ctx, append(args, ids...)...)
		return err
	})
}

// Must runs f with a time limit of its own, also when t's context is over, and ends the test if f
// fails.
func Must(t conformance.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("%v", err)
	}
}

// Started starts a service for one test, and removes its containers when the test has ended: idle
// servers take processor time from other tests.
func Started[S any](t *testing.T, image string, start func(context.Context, string) (S, error)) S {
	t.Helper()
	var mine containers
	t.Cleanup(func() {
		Must(t, func(ctx context.Context) error { return remove(ctx, mine.all()) })
	})
	return Lazily(image, func(ctx context.Context, image string) (S, error) {
		return start(context.WithValue(ctx, containersKey{}, &mine), image)
	})(t)
}
