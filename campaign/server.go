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
	"syscall"
	"time"

	"github.com/fencedlock/locker/integration/images"
)

// servers are the containers of one service. All share the network of one more container, which is
// never stopped and publishes their ports on 127.0.0.1. So an address is the same server from
// inside and from outside, also after a restart.
type servers struct {
	network string   // the container whose network they share
	ids     []string // of the servers
	specs   []spec   // with which they were started
	pid     int      // a process in that network
}

// spec is what a server's container is started with.
type spec struct {
	image            string
	options, command []string
}

// owner is the label of all containers. It names the host and the process of the run.
const owner = "locker.campaign.owner"

// newServers starts the network, with n ports. The image doesn't matter: it contains sleep.
func newServers(ctx context.Context, n int) (s *servers, addrs []string, err error) {
	args := []string{"sleep", "infinity"}
	var publish []string
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		addrs = append(addrs, addr)
		publish = append(publish, "--publish", addr+":"+strconv.Itoa(port))
	}
	s = new(servers)
	if s.network, err = runContainer(ctx, "redis", publish, args...); err != nil {
		return nil, nil, err
	}
	text, err := docker(ctx, "inspect", "--format", "{{.State.Pid}}", s.network)
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(text))
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.stop())
	}
	return s, addrs, nil
}

// start starts one more server, which keeps its files when it is stopped.
func (s *servers) start(ctx context.Context, image string, options []string, command ...string) error {
	options = append(options, "--network", "container:"+s.network, "--group-add", groupOf(len(s.ids)))
	sp := spec{image, options, command}
	id, err := runContainer(ctx, sp.image, sp.options, sp.command...)
	if err == nil {
		s.ids, s.specs = append(s.ids, id), append(s.specs, sp)
	}
	return err
}

// stop removes all containers, with their data.
func (s *servers) stop() error {
	_, err := docker(context.Background(), append([]string{"rm", "--force", "--volumes", s.network}, s.ids...)...)
	return err
}

func runContainer(ctx context.Context, image string, options []string, command ...string) (id string, err error) {
	found, err := images.Find(ctx, image, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
	if err != nil {
		return "", err
	}
	name := "locker-campaign-" + strings.ToLower(rand.Text())
	args := []string{"run", "--detach", "--name", name, "--label", owner + "=" + me(), "--entrypoint", command[0]}
	args = append(append(args, options...), found.Ref)
	if _, err := docker(ctx, append(args, command[1:]...)...); err != nil {
		_, _ = docker(ctx, "rm", "--force", "--volumes", name) // the engine may have started it despite the error
		return "", err
	}
	return name, nil
}

// docker runs a command of the engine. An interrupt must not leave a container half started or half
// removed.
func docker(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return images.Docker(ctx, args...)
}

func me() string {
	host, _ := os.Hostname()
	return host + "/" + strconv.Itoa(os.Getpid())
}

// removeLeftovers removes the containers of runs of this host that were killed.
func removeLeftovers(ctx context.Context) error {
	list, err := docker(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+owner, "--format", `{{.ID}} {{.Label "`+owner+`"}}`)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	for line := range strings.Lines(list) {
		id, run, _ := strings.Cut(strings.TrimSpace(line), " ")
		of, text, _ := strings.Cut(run, "/")
		pid, err := strconv.Atoi(text)
		if err != nil || of != host || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if _, err := docker(ctx, "rm", "--force", "--volumes", id); err != nil {
			return err
		}
	}
	return nil
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

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// statusLimit is for how long a server is asked for its role.
const statusLimit = 500 * time.Millisecond

// retry calls until there is no error, for up to 40 s.
func retry(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := call(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
