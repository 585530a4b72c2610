package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/fencedlock/locker/integration/images"
)

// longest is when a server ends by itself, so that none is left behind by a run that was killed.
const longest = 15 * time.Minute

// startServer runs a command in a container of the image that is called so in [images.All], and returns what ends it. The
// server uses the network of this host: the way through a published port would cost more than what is measured. So it must
// listen on 127.0.0.1 alone.
func startServer(ctx context.Context, image string, command ...string) (stop func() error, err error) {
	found, err := images.Find(ctx, image, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
	if err != nil {
		return nil, err
	}
	args := []string{"run", "--detach", "--rm", "--network", "host", "--entrypoint", "timeout"}
	if pinned {
		args = append(args, "--cpuset-cpus", strconv.Itoa(serverCPU()))
	}
	args = append(args, found.Ref, strconv.Itoa(int(longest.Seconds())))
	id, err := images.Docker(ctx, append(args, command...)...)
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := images.Docker(ctx, "rm", "--force", "--volumes", id)
		return err
	}, nil
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
func eventually(ctx context.Context, call func(context.Context) error) error {
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
