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

// serverClockFaults are jumps of the servers' wall clocks. The clock of the machine stays as it is:
// a library that is loaded before the others replaces what the servers read. A program that isn't
// linked with the system's library, as etcd, reads the machine's clock nevertheless, and is left
// out.
var serverClockFaults = []fault{
	serverJump("server-clock-ahead", "the wall clocks of all servers jump ahead by a minute, and the section lasts longer than the TTL", time.Minute),
	serverJump("server-clock-back", "the wall clocks of all servers jump back by a minute, and the section lasts longer than the TTL", -time.Minute),
}

func serverJump(name, what string, ahead time.Duration) fault {
	return fault{
		name: name, what: what, lasts: true, harmless: true, hazard: serverClock, preloads: true,
		needs: func(ctx context.Context) error { return clockLibrary.make(ctx) },
		before: func(ctx context.Context, s *service) error {
			if err := clockLibrary.set(0); err != nil {
				return err
			}
			return s.recreate(ctx, "--volume", clockLibrary.dir+":"+clockDir+":ro",
				"--env", "LD_PRELOAD="+clockDir+"/clock.so", "--env", clockVariable+"="+clockDir+"/ahead")
		},
		after:        func(ctx context.Context, s *service) error { return s.recreate(ctx) },
		serviceFault: func(context.Context, *service, schedule) error { return clockLibrary.set(ahead) },
	}
}

// clockDir is where the servers find the library, and the file that says by how much their clocks
// are ahead. The variable of the environment names the file.
const (
	clockDir      = "/campaign-clock"
	clockVariable = "CAMPAIGN_CLOCK"
)

//go:embed serverclock/clock.c
var clockSource []byte

// preloaded is the library, and its file, in a directory of the machine that is shared with the
// servers.
type preloaded struct {
	mu  sync.Mutex
	dir string
}

var clockLibrary preloaded

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
	dir, err := os.MkdirTemp("", "locker-campaign-clock-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	source := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(source, clockSource, 0o644); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O2", "-o", filepath.Join(dir, "clock.so"), source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers have users of their own
		return err
	}
	p.dir = dir
	return p.set(0)
}

// set lets the clocks of all processes that have loaded the library be ahead by d, at once: they
// have the file in their memory.
func (p *preloaded) set(d time.Duration) error {
	file, err := os.OpenFile(filepath.Join(p.dir, "ahead"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second)))
	if _, err := file.WriteAt(seconds, 0); err != nil {
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
