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

// maxServerLifetime is after which time a server ends by itself, so that a killed run leaves none
// behind.
const maxServerLifetime = 3 * time.Hour

// container is a running server.
type container struct {
	pid  int // its first process, as a process id of this machine; 0: unknown
	stop func() error
}

// containers are the servers of one service.
type containers []*container

func (c containers) stop() (err error) {
	for _, one := range c {
		err = errors.Join(err, one.stop())
	}
	return err
}

// startServer runs a command in a container of the image with that name in [images.All]. The
// container ends by itself after maxServerLifetime. The server uses the network of this host,
// because a published port would cost more than what is measured. So the server must listen on
// 127.0.0.1 alone.
func startServer(ctx context.Context, image string, command ...string) (*container, error) {
	return startContainer(ctx, image, nil, limited(command...)...)
}

// limited returns a command that ends after maxServerLifetime.
func limited(command ...string) []string {
	return append([]string{"timeout", strconv.Itoa(int(maxServerLifetime.Seconds()))}, command...)
}

// dataOnDisk is whether etcd and ZooKeeper have their data on the disk. They write it there before they
// answer: so a request takes as long as the disk does, and the differences between the clients are
// smaller than those between two writes to a disk.
var dataOnDisk = false

// inMemory returns the options of a container that has folders in memory, unless data is on the disk.
func inMemory(folders ...string) (options []string) {
	for _, folder := range folders {
		if !dataOnDisk {
			options = append(options, "--tmpfs", folder)
		}
	}
	return options
}

func whereDataIs() string {
	if dataOnDisk {
		return "data on the disk"
	}
	return "data in memory"
}

// startContainer is like startServer, with further options of docker run. The command isn't limited: some
// images contain only the server and no timeout command. A killed run leaves such a server behind.
func startContainer(ctx context.Context, image string, options []string, command ...string) (*container, error) {
	found, err := images.Find(ctx, image, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
	if err != nil {
		return nil, err
	}
	name := "locker-bench-" + strings.ToLower(rand.Text())
	args := []string{"run", "--detach", "--rm", "--name", name, "--network", "host", "--entrypoint", command[0]}
	if pinned {
		args = append(args, "--cpuset-cpus", strconv.Itoa(serverCPU()))
	}
	args = append(append(args, options...), found.Ref)
	// An interrupt must not leave a container half started or half removed.
	docker := func(args ...string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := images.Docker(ctx, args...)
		return err
	}
	c := &container{stop: func() error { return docker("rm", "--force", "--volumes", name) }}
	if err := docker(append(args, command[1:]...)...); err != nil {
		_ = c.stop() // the engine may have started it despite the error
		return nil, err
	}
	if pid, err := images.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", name); err == nil {
		c.pid, _ = strconv.Atoi(pid)
	}
	return c, nil
}

// freePort returns a port of 127.0.0.1 that is unused.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// retry calls until there is no error, for up to 30 s.
func retry(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
