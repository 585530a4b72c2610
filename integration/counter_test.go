//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/step"
	etcdtest "github.com/fencedlock/locker/integration/etcd"
	"github.com/fencedlock/locker/integration/internal/itest"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
	redlocktest "github.com/fencedlock/locker/integration/redlock"
	zktest "github.com/fencedlock/locker/integration/zk"
)

// counterSize is the size of a run of the example. In each round a process is stopped at the worst
// moment, other processes write, and the stopped process continues.
type counterSize struct{ rounds, updates int } // updates: of the other processes, in each round

var (
	shortCounter = counterSize{rounds: 2, updates: 10}
	longCounter  = counterSize{rounds: 110, updates: 20} // with LOCKER_SOAK
)

// TestCounter runs examples/counter, with real processes, lock services, storages and expiry.
// Holders that are stopped between read and write lose no update if the storage checks their
// tokens, and lose updates if it doesn't.
func TestCounter(t *testing.T) {
	itest.NeedServers(t)
	binary := build(t, "examples/counter")
	postgres := func(t *testing.T) string { return pgtest.FenceURL(t, pgtest.Standalone(t)) }
	redis := func(t *testing.T) string {
		u := url.URL{Scheme: "redis", User: url.UserPassword("", redistest.Password), Host: redistest.Standalone(t).Nodes[0].Addr}
		return u.String()
	}
	etcd := func(t *testing.T) string {
		u := url.URL{Scheme: "etcd", User: url.UserPassword("root", etcdtest.Password), Host: strings.Join(etcdtest.Cluster(t).Config.Endpoints, ",")}
		return u.String()
	}
	size := shortCounter
	if os.Getenv("LOCKER_SOAK") != "" {
		size = longCounter
	}
	for _, tc := range []struct {
		lock    string
		lockURL func(*testing.T) string
		ttl     time.Duration
		data    string
		dataURL func(*testing.T) string
	}{
		{"redis", func(t *testing.T) string { return redistest.Standalone(t).URL }, itest.ShortTTL, "postgres", postgres},
		{"redlock", func(t *testing.T) string { return redlocktest.Servers(t).URL }, itest.ShortTTL, "redis", redis},
		{"etcd", func(t *testing.T) string { return etcdtest.Cluster(t).URL }, etcdtest.TTL, "redis", redis},
		{"zookeeper", func(t *testing.T) string { return zktest.Ensemble(t).URL }, zktest.TTL, "etcd", etcd},
		{"postgres", func(t *testing.T) string { return pgtest.Standalone(t).URL }, itest.ShortTTL, "postgres", postgres},
	} {
		t.Run(tc.lock+"/"+tc.data, func(t *testing.T) {
			c := counterProgram{binary: binary, lock: tc.lockURL(t), data: tc.dataURL(t), ttl: tc.ttl}
			t.Parallel()
			t.Run("fenced", func(t *testing.T) {
				t.Parallel()
				c.run(t, size)
			})
			t.Run("unfenced", func(t *testing.T) {
				t.Parallel()
				c := c
				c.unfenced = true
				c.run(t, size)
			})
		})
	}
}

// counterProgram starts processes of the example.
type counterProgram struct {
	binary, lock, data string
	ttl                time.Duration
	unfenced           bool
}

func (c counterProgram) run(t *testing.T, size counterSize) {
	name := step.LockName(t)
	written, refused := 0, 0
	for round := range size.rounds {
		stopped := c.start(t, name, "--updates=1", "--stop")
		stopped.waitForLine(t, "stopped")
		others := []*counterProcess{
			c.start(t, name, "--updates="+strconv.Itoa(size.updates/2)),
			c.start(t, name, "--updates="+strconv.Itoa(size.updates-size.updates/2)),
		}
		if round%2 == 0 { // it continues after the others have done their work
			others[0].waitForEnd(t)
			others[1].waitForEnd(t)
		} else { // or while they work
			for range 1 + rand.IntN(size.updates/2-1) {
				others[0].waitForLine(t, "written")
			}
		}
		stopped.resume(t)
		for _, p := range append(others, stopped) {
			p.waitForEnd(t)
			written += p.written
			refused += p.refused
		}
	}
	p := c.start(t, name, "--updates=0")
	p.waitForEnd(t)
	lost := written - p.number
	t.Logf("%d processes were stopped between read and write; %d updates were acknowledged, %d of them are lost, and %d writes were refused",
		size.rounds, written, lost, refused)
	switch {
	case c.unfenced && lost*10 <= written:
		t.Errorf("%d of %d updates are lost without a fence, want more than a tenth: otherwise this test proves nothing", lost, written)
	case !c.unfenced && lost != 0:
		t.Errorf("%d of %d updates are lost although the token was checked, want 0", lost, written)
	case !c.unfenced && refused < size.rounds:
		t.Errorf("%d writes were refused, want at least %d, one of each stale holder", refused, size.rounds)
	}
}

// counterProcess is a process of the example. Its output is read as it comes.
type counterProcess struct {
	cmd              *exec.Cmd
	lines            chan string
	stderr           bytes.Buffer
	written, refused int
	number           int // the value of the counter that it prints at its end
}

func (c counterProgram) start(t *testing.T, name string, args ...string) *counterProcess {
	t.Helper()
	args = append(args, "--lock="+c.lock, "--data="+c.data, "--name="+name, "--ttl="+c.ttl.String())
	if c.unfenced {
		args = append(args, "--no-fence")
	}
	p := &counterProcess{cmd: exec.CommandContext(t.Context(), c.binary, args...), lines: make(chan string, 1000)}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	return p
}

func (p *counterProcess) read(out io.Reader) {
	defer close(p.lines)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.lines <- lines.Text()
	}
}

// nextLine waits for a line and counts it.
func (p *counterProcess) nextLine(t *testing.T) (line string, more bool) {
	t.Helper()
	select {
	case line, more = <-p.lines:
	case <-time.After(step.Limit):
		t.Fatal("a process printed nothing for a minute")
	}
	switch {
	case strings.HasPrefix(line, "written"):
		p.written++
	case strings.HasPrefix(line, "refused"):
		p.refused++
	case strings.HasPrefix(line, "the number is"):
		if _, err := fmt.Sscanf(line, "the number is %d", &p.number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return line, more
}

// waitForLine waits for a line that begins with prefix.
func (p *counterProcess) waitForLine(t *testing.T, prefix string) {
	t.Helper()
	for {
		line, more := p.nextLine(t)
		if !more {
			t.Fatalf("a process ended (%v) before it printed %q: %s", p.cmd.Wait(), prefix, p.stderr.String())
		}
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
}

// resume sends SIGCONT until the process prints something, because on a busy machine the process
// may take long to stop itself.
func (p *counterProcess) resume(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	p.nextLine(t)
	cancel()
	<-done
}

// waitForEnd waits until the process ends by itself. It may be called twice.
func (p *counterProcess) waitForEnd(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	for more := true; more; {
		_, more = p.nextLine(t)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(errors.Join(err, errors.New(p.stderr.String())))
	}
}
