package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker/integration/images"
)

// longest is when a server ends by itself, so that none is left behind by a run that was killed.
const maxServerLifetime = 3 * time.Hour

// container is a server that runs.
type container struct {
	pid  int // of its first process, as this machine sees it; 0: it doesn't
	stop func() error
}

// containers are several that make one service.
type containers []*container

func (c containers) stop() (err error) {
	for _, one := range c {
		err = errors.Join(err, one.stop())
	}
	return err
}

// startServer runs a command in a container of the image that is called so in [images.All], which ends by itself after a while. The
// server uses the network of this host: the way through a published port would cost more than what is measured. So it must listen on
// 127.0.0.1 alone.
func startServer(ctx context.Context, image string, command ...string) (*container, error) {
	return startContainer(ctx, image, append([]string{"timeout", strconv.Itoa(int(maxServerLifetime.Seconds()))}, command...)...)
}

// startContainer is for images that have nothing but the server, which is left behind when a run is killed.
func startContainer(ctx context.Context, image string, command ...string) (*container, error) {
	found, err := images.Find(ctx, image, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
	if err != nil {
		return nil, err
	}
	name := "locker-bench-" + strings.ToLower(rand.Text())
	args := []string{"run", "--detach", "--rm", "--name", name, "--network", "host", "--entrypoint", command[0]}
	if pinned {
		args = append(args, "--cpuset-cpus", strconv.Itoa(serverCPU()))
	}
	args = append(args, found.Ref)
	docker := func(args ...string) error { // an interrupt must not leave a container half started, or half removed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := images.Docker(ctx, args...)
		return err
	}
	c := &container{stop: func() error { return docker("rm", "--force", "--volumes", name) }}
	if err := docker(append(args, command[1:]...)...); err != nil {
		_ = c.stop() // the engine may have started it all the same
		return nil, err
	}
	if pid, err := images.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", name); err == nil {
		c.pid, _ = strconv.Atoi(pid)
	}
	return c, nil
}

// freePort finds a port of 127.0.0.1 that nobody uses.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// eventually calls until there is no error, for up to 10 s.
func retry(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
