//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/middleware"
)

// harness runs each case on a server of its own, a process that can be stopped and killed. What is
// particular to this backend is in open, start and admin.
var harness = conformance.Harness{
	// Requests are given up after a sixth of the TTL. Where answers take longer, the TTL must grow:
	// see "When answers are slow" in CONTRIBUTING.md.
	TTL: 3 * time.Second, Strict: true,
	Wrap: func(t *testing.T, run func(t *testing.T)) {
		t.Parallel() // most cases wait until leases expire
		run(t)
	},
	Setup: func(t conformance.T, h *conformance.Harness) {
		s := &service{}
		s.start(t, ownHost()+":0")
		h.Open = func(t conformance.T) locker.Locker {
			l, _ := s.open(t)
			return l
		}
		h.Hooks = s.hooks()
	},
}

// service is a server and the networks of its clients.
type service struct {
	addr   string
	server *exec.Cmd

	down atomic.Bool

	mu       sync.Mutex
	networks []*proxy.Network
}

var hosts atomic.Int32

// ownHost is an address of this machine on which no other server listens: nobody takes the port of a
// server while it is restarted. Other systems than Linux have one such address.
func ownHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	n := hosts.Add(1)
	return fmt.Sprintf("127.0.%d.%d", 1+n/250, 1+n%250)
}

// open opens a Locker with a network of its own.
func (s *service) open(t conformance.T) (locker.Locker, *proxy.Network) {
	t.Helper()
	network := proxy.Start(t)
	s.mu.Lock()
	s.networks = append(s.networks, network)
	s.mu.Unlock()
	dial := func(ctx context.Context, kind, addr string) (net.Conn, error) {
		if s.down.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return network.Dial(ctx, kind, addr)
	}
	return New(s.addr, dial, 30*time.Second), network
}

func (s *service) hooks() conformance.Hooks {
	return conformance.Hooks{
		Linked: func(t conformance.T) (locker.Locker, conformance.Link) { t.Helper(); return s.open(t) },
		Process: func(t conformance.T) process.Process {
			t.Helper()
			return process.Start(t, exec.Command(os.Args[0], "hold", s.addr))
		},
		Skewed: s.startSkewed,
		Pause:  s.pause,
		Resume: func(t conformance.T) { t.Helper(); s.signal(t, syscall.SIGCONT) },
		Down: func(conformance.T) {
			s.down.Store(true)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, n := range s.networks {
				n.Sever()
			}
		},
		Up:      func(conformance.T) { s.down.Store(false) },
		Restart: s.restart,
		Wipe:    s.restart, // nothing is kept
		Remove: func(t conformance.T, name string) {
			t.Helper()
			s.admin(t, request{Op: "remove", Keys: []key{{Name: name}}})
		},
		Requests: func(t conformance.T) int64 {
			t.Helper()
			return int64(s.admin(t, request{Op: "look"}).Numbers[0])
		},
		Residue: func(t conformance.T) string {
			t.Helper()
			return strings.Join(s.admin(t, request{Op: "look"}).Left, ", ")
		},
		Prefixed: func(t conformance.T, prefix string) locker.Locker {
			t.Helper()
			inner, _ := s.open(t)
			l, err := middleware.Prefix(inner, prefix)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return l
		},
		URL: backend + "://" + s.addr,
		BadURLs: map[string]string{
			"host": backend + "://no-such-host.invalid:7000",
			"port": backend + "://127.0.0.1:1", // on which nobody listens
			"user": backend + "://someone:open-sesame@" + s.addr,
		},
		Absent: map[conformance.Hook]string{
			conformance.HookFailover: "there is one server",
			conformance.HookNarrow:   "there is one connection",
		},
	}
}

// start starts the server, which is the test binary again: see TestMain. A server of yours is a
// command of its own. The server ends when the case does, or when this process dies.
func (s *service) start(t conformance.T, addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve", addr)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil || cmd.Start() != nil {
		t.Fatalf("the server can't be started")
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its error says that it was killed
		_ = in.Close()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server hasn't started: %v", err)
	}
	s.addr, s.server = strings.TrimSpace(line), cmd
}

// restart kills the server and starts another one on the same port.
func (s *service) restart(t conformance.T) {
	t.Helper()
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	s.start(t, s.addr)
}

// pause waits until all threads of the server have stopped: until then it may still answer.
func (s *service) pause(t conformance.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.server.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the server has not stopped: %v", err)
	}
}

func (s *service) signal(t conformance.T, sig syscall.Signal) {
	t.Helper()
	if err := s.server.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}

// startSkewed starts a holder whose clock is wrong. Its program is built once.
func (s *service) startSkewed(t conformance.T, ahead time.Duration) process.Process {
	t.Helper()
	program, err := skewed()
	if err != nil {
		t.Fatalf("%v", err)
	}
	cmd := exec.Command(program, "hold", s.addr)
	cmd.Env = append(os.Environ(), process.ClockAhead(ahead))
	return process.Start(t, cmd)
}

// admin asks the server past the Lockers, as an operator does.
func (s *service) admin(t conformance.T, r request) answer {
	t.Helper()
	c := newClient(s.addr, new(net.Dialer).DialContext)
	defer c.close(context.Background())
	a, err := c.do(context.Background(), time.Minute, r)
	if err != nil {
		t.Fatalf("%s: %v", r.Op, err)
	}
	return a
}
