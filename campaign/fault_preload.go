package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// preloadFaults happen in the processes of the servers, by a library that is loaded before the
// system's. The clock and the disk of the machine stay as they are. A program that isn't linked with
// the system's library, as etcd, notices nothing of it, and is left out.
var preloadFaults = []fault{
	preloading(fault{name: "server-clock-ahead", what: "the wall clocks of all servers jump ahead by a minute, and the section lasts longer than the TTL",
		outlasts: true, harmless: true, hazard: serverClock,
		serviceFault: func(_ context.Context, s *service, _ schedule) error {
			return preload.set(s.state(), time.Minute, false)
		}}),
	preloading(fault{name: "server-clock-back", what: "the wall clocks of all servers jump back by a minute, and the section lasts longer than the TTL",
		outlasts: true, harmless: true, hazard: serverClock,
		serviceFault: func(_ context.Context, s *service, _ schedule) error {
			return preload.set(s.state(), -time.Minute, false)
		}}),
	preloading(fault{name: "disk-stall", what: "for longer than the TTL, no call of the servers returns that waits for the disk (fsync, fdatasync)",
		awaitsRival: true, serviceFault: stallDisks}),
}

// preloading starts the servers with the library before each round, because a jump back at its end
// would be one more fault.
func preloading(f fault) fault {
	f.preloads = true
	f.needs = func(ctx context.Context) error { return preload.make(ctx) }
	f.beforeRound = func(ctx context.Context, s *service) error {
		if err := preload.set(s.state(), 0, false); err != nil {
			return err
		}
		return s.recreate(ctx, "--volume", preload.dir+":"+preloadDir+":ro",
			"--env", "LD_PRELOAD="+preloadDir+"/"+preloadLibrary, "--env", preloadVariable+"="+preloadDir+"/"+s.state())
	}
	return f
}

func stallDisks(ctx context.Context, s *service, _ schedule) error {
	if err := preload.set(s.state(), 0, true); err != nil {
		return err
	}
	wait(ctx, time.After(s.ttl*5/4))
	return preload.set(s.state(), 0, false)
}

const (
	preloadDir      = "/campaign-preload" // where the servers find the library and its states
	preloadLibrary  = "preload.so"
	preloadVariable = "CAMPAIGN_PRELOAD" // names the state in the servers' environment
)

//go:embed preload/preload.c
var preloadSource []byte

// preloaded is the library and its states, in a directory of the machine that is shared with the
// servers.
type preloaded struct {
	mu  sync.Mutex
	dir string
}

var preload preloaded

// make compiles the library, once.
func (p *preloaded) make(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		return nil
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "locker-campaign-preload-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
			p.dir = ""
		}
	}()
	source := filepath.Join(dir, "preload.c")
	if err := os.WriteFile(source, preloadSource, 0o644); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O2", "-o", filepath.Join(dir, preloadLibrary), source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers have users of their own
		return err
	}
	p.dir = dir
	return nil
}

// state is the file of a service, because several run at the same time.
func (s *service) state() string { return "state-" + s.network }

// set changes the state of all processes that have loaded the library with that file, at once: they
// have the file in their memory.
func (p *preloaded) set(state string, ahead time.Duration, stalled bool) error {
	content := binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second)))
	flag := uint64(0)
	if stalled {
		flag = 1
	}
	file, err := os.OpenFile(filepath.Join(p.dir, state), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(content, flag), 0); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func (p *preloaded) remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // in the system's directory for temporary files
	}
}
