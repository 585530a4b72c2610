package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Usable returns nil if this process may enter other namespaces, or else an error with the reason.
func Usable() error {
	if os.Geteuid() != 0 {
		return errors.New("cuts below TCP need root")
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		return errors.New("cuts below TCP need iptables")
	}
	return nil
}

// Entered returns nil if the namespace of a process can be entered, so its engine runs on this
// machine.
func Entered(pid int) error { return inside(pid, func() {}) }

// inside runs f in the network namespace of a process. Sockets that f opens stay in that namespace.
func inside(pid int, f func()) error {
	entered := make(chan error, 1)
	go func() {
		// A thread that has entered another namespace must not run anything else. It ends with this
		// goroutine, which never unlocks it.
		runtime.LockOSThread()
		err := enter(pid)
		if err == nil {
			f()
		}
		entered <- err
	}()
	return <-entered
}

func enter(pid int) error {
	path := namespacePath(pid)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("netns: the container's process must be on this machine: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("netns: entering a container's network: %w", err)
	}
	return nil
}

func namespacePath(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// namespaceOf returns the identity of the namespace of a process.
func namespaceOf(pid int) string {
	id, err := os.Readlink(namespacePath(pid))
	if err != nil {
		return namespacePath(pid)
	}
	return id
}

// command runs a program of this machine in the network namespace of a process.
func command(ctx context.Context, pid int, name string, args ...string) (err error) {
	inErr := inside(pid, func() {
		var out []byte
		if out, err = exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
			err = fmt.Errorf("netns: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	})
	return errors.Join(inErr, err)
}

// Set sets kernel limits in the network namespace of a process, such as net/ipv4/tcp_retries2. They
// apply to all connections there, and disappear with the namespace.
func Set(pid int, limits map[string]string) (err error) {
	inErr := inside(pid, func() {
		for name, value := range limits {
			err = errors.Join(err, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0))
		}
	})
	return errors.Join(inErr, err)
}
