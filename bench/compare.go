package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// comparison is the mode that measures two commits of this project in the same rounds: the one that
// this program was built with, and another. Each has its clients in a process of its own, on the
// same servers. Locks have other names in each, but what a backend keeps once for all locks, such as
// a schema, is shared.
type comparison struct {
	commit   string
	checkout string // the directory with the other commit and its program
	own      *helper
	other    *helper
}

// program is the name of the built program in the checkout.
const program = "compared"

// startComparison builds this program with another commit of the project, and starts both workers.
func startComparison(ctx context.Context, commit string) (_ *comparison, err error) {
	c := &comparison{commit: commit}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if err := c.build(ctx); err != nil {
		return nil, fmt.Errorf("commit %s: %w", commit, err)
	}
	if c.own, err = startHelper(ctx, selfPath(), "worker"); err != nil {
		return nil, err
	}
	c.other, err = startHelper(ctx, filepath.Join(c.checkout, "bench", program), "worker")
	return c, err
}

// build makes a git worktree of the other commit, and puts this program's source in the place of its
// bench: the replace directives in go.mod then mean that commit. What the program needs of the root
// module besides the public API comes with it.
func (c *comparison) build(ctx context.Context) (err error) {
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "locker-bench-")
	if err != nil {
		return err
	}
	c.checkout = filepath.Join(dir, "locker")
	if _, err := output(ctx, root, "git", "worktree", "add", "--quiet", "--detach", c.checkout, c.commit); err != nil {
		return err
	}
	for _, dir := range []string{"bench", "internal/chart"} {
		if err := os.RemoveAll(filepath.Join(c.checkout, dir)); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(c.checkout, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			return err
		}
	}
	bench := filepath.Join(c.checkout, "bench")
	// The other commit may need other versions of modules.
	_, err = output(ctx, bench, "go", "build", "-mod=mod", "-o", program, ".")
	return err
}

// output runs a command and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var problem strings.Builder
	cmd.Stderr = &problem
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(problem.String()))
	}
	return strings.TrimSpace(string(text)), nil
}

// stop ends the workers and removes the worktree.
func (c *comparison) stop() (err error) {
	for _, h := range []*helper{c.own, c.other} {
		if h != nil {
			h.stop()
		}
	}
	if c.checkout == "" {
		return nil
	}
	_, err = output(context.Background(), "", "git", "worktree", "remove", "--force", c.checkout)
	return errors.Join(err, os.RemoveAll(filepath.Dir(c.checkout)))
}

// peers returns what is compared on a backend: the bare request, and both commits. The other commit
// takes the place of a lock by hand.
func (c *comparison) peers(backend string, p peers, addrs []string) peers {
	var commands []string
	for _, one := range p.load {
		if one.name == thisProject {
			commands = one.commands
		}
	}
	return peers{
		bare:   p.bare,
		byHand: workerPeer(c.commit, backend, addrs, commands, c.other),
		load:   []peer{workerPeer(thisProject, backend, addrs, commands, c.own)},
	}
}

// backends returns the table of backends with the peers of the comparison, and without goals.
func (c *comparison) backends() (all []backend) {
	for _, b := range backends {
		all = append(all, backend{name: b.name, start: b.start,
			peers: func(addrs []string) peers { return c.peers(b.name, b.peers(addrs), addrs) },
			goals: func() []goal { return nil },
		})
	}
	return all
}

// pids are the processes of the workers, which have the clients.
func (c *comparison) pids() []int { return []int{c.own.cmd.Process.Pid, c.other.cmd.Process.Pid} }
