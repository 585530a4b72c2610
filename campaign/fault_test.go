package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
)

// Names choose faults on the command line and rows on the page, so each belongs to one fault.
func TestFaultNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range faults {
		if seen[f.name] || f.name == "" || f.what == "" {
			t.Errorf("fault %q, %q: want a name of its own and a sentence", f.name, f.what)
		}
		seen[f.name] = true
		if f.leader && f.serviceFault == nil || f.silent && f.outlasts {
			t.Errorf("fault %q contradicts itself", f.name)
		}
		lanes := 0
		for _, k := range laneKinds {
			if k.has(f) {
				lanes++
			}
		}
		if lanes != 1 {
			t.Errorf("fault %q is in %d lanes, want 1", f.name, lanes)
		}
	}
}

// A build whose clock can't jump says so.
func TestJump(t *testing.T) {
	t.Setenv("LOCKER_CLOCK_AHEAD", "")
	if err := jump(0); err != nil {
		t.Errorf("no jump: %v", err)
	}
	if err := jump(time.Minute); err == nil {
		t.Error("a clock that didn't jump was taken for one that did")
	}
}

// The leader fails after the last renewal that the service can have heard, and before the lease
// ends: between a half and the whole of the TTL after the silence began.
func TestLeaderFailsBeforeTheExpiry(t *testing.T) {
	const ttl = 3 * time.Second
	for round := range 100 {
		if at := newSchedule(1, "etcd", "expiry-leader-kill", round, ttl).Leader; at < ttl/2 || at >= ttl*3/4 {
			t.Fatalf("round %d: the leader fails after %v", round, at)
		}
	}
}

// A program that has loaded the library reads another wall clock, and sees it jump.
func TestPreloadClock(t *testing.T) {
	p, run := preloadFor(t)
	for _, ahead := range []time.Duration{0, time.Minute, -time.Minute} {
		if err := p.set(testState, ahead, false); err != nil {
			t.Fatal(err)
		}
		before := time.Now().Add(ahead).Unix()
		out, err := run("date", "+%s").Output()
		after := time.Now().Add(ahead).Unix()
		if err != nil {
			t.Fatal(err)
		}
		if clock, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64); err != nil || clock < before || clock > after {
			t.Errorf("ahead by %v, the clock is %s, want %d to %d", ahead, out, before, after)
		}
	}
}

// A program that has loaded the library waits for the disk as long as the disk stalls.
func TestPreloadDisk(t *testing.T) {
	p, run := preloadFor(t)
	if err := p.set(testState, 0, true); err != nil {
		t.Fatal(err)
	}
	cmd := run("sync", filepath.Join(p.dir, testState))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	select {
	case err := <-ended:
		t.Fatalf("sync = %v while the disk stalls, want no answer", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := p.set(testState, 0, false); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("sync = %v when the disk works again", err)
	}
}

const testState = "state"

func preloadFor(t *testing.T) (p *preloaded, run func(name string, args ...string) *exec.Cmd) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the servers' clocks and disks need a C compiler: ", err)
	}
	p = new(preloaded)
	if err := p.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.set(testState, 0, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return p, func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(p.dir, preloadLibrary), preloadVariable+"="+filepath.Join(p.dir, testState))
		return cmd
	}
}

// All packets between a server and the others are dropped: those that it sends, and those for its
// ports. Those of clients aren't.
func TestIsolationRules(t *testing.T) {
	rules := isolationRules(1, "7", [][]int{{10, 20}, {11, 21}, {12, 22}})
	var text []string
	for _, r := range rules {
		text = append(text, strings.Join(r, " "))
	}
	want := []string{
		"OUTPUT --table mangle --protocol tcp --match owner --gid-owner 28801 --suppl-groups --match multiport --ports 10,20,11,21,12,22 --jump CONNMARK --set-mark 7",
		"OUTPUT --table mangle --protocol tcp --match multiport --destination-ports 11,21 --jump CONNMARK --set-mark 7",
		"INPUT --match connmark --mark 7 --jump DROP",
	}
	if !slices.Equal(text, want) {
		t.Errorf("rules:\n%s\nwant:\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
}

// A reply is lost by each server that a request goes to, and requests are recognised by the name of
// the lock where they contain it.
func TestLoseReply(t *testing.T) {
	for _, tc := range []struct {
		name    string
		b       backend
		request string
		want    int // replies that are lost
	}{
		{"by name", backend{}, "acquire lock-1", 1},
		{"of another request", backend{}, "ping", 0},
		{"without names", backend{nameless: true}, "ping", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			link := proxy.Start(t)
			m := &match{backend: tc.b, service: &service{addrs: []string{"a"}}, name: "lock-1", link: link}
			m.loseReply()
			if m.toLose != 1 {
				t.Errorf("%d replies must be lost, want 1", m.toLose)
			}
			c := echo(t, link)
			if _, err := c.Write([]byte(tc.request)); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			if tc.want == 0 {
				if _, err := c.Read(make([]byte, 1)); err != nil {
					t.Errorf("the reply didn't come: %v", err)
				}
				return
			}
			m.breakWhenLost(t.Context())
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || link.Lost() != tc.want {
				t.Errorf("read: %v, and %d replies are lost; want a reset and %d", err, link.Lost(), tc.want)
			}
		})
	}
	m := &match{backend: backend{independent: true}, service: &service{addrs: []string{"a", "b", "c"}}, link: proxy.Start(t)}
	if m.loseReply(); m.toLose != 3 {
		t.Errorf("three servers must lose %d replies", m.toLose)
	}
}

// echo connects to a server that answers with what it gets.
func echo(t *testing.T, link *proxy.Network) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 100)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			_, _ = conn.Write(buf[:n])
		}
	}()
	c, err := link.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A variant of a service meets the control and what the usual form can't have, and no fault is left
// without a backend.
func TestVariants(t *testing.T) {
	want := map[string][]string{
		"postgres-replica": {controlFault, "leader-kill", "expiry-leader-kill"},
		"redis-sentinel":   {controlFault, "leader-kill", "leader-stop", "expiry-leader-kill", "expiry-leader-stop"},
		"redis-cluster":    {controlFault, "masters-kill", "reshard"},
	}
	met := make(map[string]bool)
	for _, b := range backends {
		var names []string
		for _, f := range faults {
			if b.has(f) {
				names = append(names, f.name)
				met[f.name] = true
			}
		}
		if b.variant != (want[b.name] != nil) || b.variant && !slices.Equal(names, want[b.name]) {
			t.Errorf("%s meets %q, want %q", b.name, names, want[b.name])
		}
	}
	for _, f := range faults {
		if !met[f.name] {
			t.Errorf("no backend meets fault %q", f.name)
		}
	}
}
