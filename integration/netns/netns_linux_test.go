package netns

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newNamespace creates a network namespace for the test, and returns a process in it.
func newNamespace(t *testing.T) (pid int) {
	t.Helper()
	if err := Usable(); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Skipf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := command(t.Context(), cmd.Process.Pid, "ip", "link", "set", "lo", "up"); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// serve listens in a namespace. It returns the address, and a channel that receives the first
// connection.
func serve(t *testing.T, pid int) (addr string, conns <-chan net.Conn) {
	t.Helper()
	var (
		l      net.Listener
		err    error
		config = net.ListenConfig{KeepAlive: -1} // use the namespace's limits, not Go's
	)
	if inErr := inside(pid, func() { l, err = config.Listen(t.Context(), "tcp", "127.0.0.1:0") }); inErr != nil || err != nil {
		t.Fatal(inErr, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
		}
	}()
	return l.Addr().String(), accepted
}

// arrives reports whether a line that is sent to one end is read at the other within half a second.
func arrives(t *testing.T, from, to net.Conn) bool {
	t.Helper()
	const line = "line\n"
	if _, err := io.WriteString(from, line); err != nil {
		t.Fatal(err)
	}
	if err := to.SetReadDeadline(time.Now().Add(time.Second / 2)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(line))
	n, err := io.ReadFull(to, got)
	if n > 0 && (err != nil || string(got) != line) {
		t.Fatalf("read %q, %v, want %q", got[:n], err, line)
	}
	return err == nil
}

func TestCutDropsPackets(t *testing.T) {
	for d, want := range map[Direction]struct{ requests, replies bool }{
		// The end that receives nothing acknowledges nothing. But packets that reach the other end
		// are read there.
		Both:     {false, false},
		Requests: {false, true},
		Replies:  {true, false},
	} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			pid := newNamespace(t)
			addr, conns := serve(t, pid)
			network, err := New(map[string]int{addr: pid})
			if err != nil {
				t.Fatal(err)
			}
			client, err := network.Dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			server := <-conns
			t.Cleanup(func() { _, _ = client.Close(), server.Close() })
			if !arrives(t, client, server) || !arrives(t, server, client) {
				t.Fatal("a line doesn't arrive before the cut")
			}
			if err := network.Cut(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if got := arrives(t, client, server); got != want.requests {
				t.Errorf("request arrives after the cut = %v, want %v", got, want.requests)
			}
			if got := arrives(t, server, client); got != want.replies {
				t.Errorf("reply arrives after the cut = %v, want %v", got, want.replies)
			}
			if err := network.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rules := firewallRules(t, pid); strings.Contains(rules, "DROP") {
				t.Errorf("rules after Heal, want none:\n%s", rules)
			}
			if !want.requests { // TCP retransmits what was lost
				if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(server, make([]byte, 5)); err != nil {
					t.Errorf("the lost request doesn't arrive after Heal: %v", err)
				}
			}
		})
	}
}

// When a client is cut off, the server's kernel closes the connection because its keepalives aren't
// acknowledged. With a proxy in between it never does.
func TestNothingAcknowledgesForTheClient(t *testing.T) {
	pid := newNamespace(t)
	limits := map[string]string{"net/ipv4/tcp_keepalive_time": "1", "net/ipv4/tcp_keepalive_intvl": "1", "net/ipv4/tcp_keepalive_probes": "1"}
	if err := Set(pid, limits); err != nil {
		t.Fatal(err)
	}
	addr, conns := serve(t, pid)
	network, err := New(map[string]int{addr: pid})
	if err != nil {
		t.Fatal(err)
	}
	client, err := network.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := <-conns
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	if err := server.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1}); err != nil {
		t.Fatal(err)
	}
	if err := network.Cut(t.Context(), Both); err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("Read = %v, want %v: the kernel closes the connection", err, syscall.ETIMEDOUT)
	}
}

// firewallRules returns the firewall rules of a namespace.
func firewallRules(t *testing.T, pid int) (rules string) {
	t.Helper()
	var (
		out []byte
		err error
	)
	if inErr := inside(pid, func() { out, err = exec.CommandContext(t.Context(), "iptables", "--list-rules").Output() }); inErr != nil || err != nil {
		t.Fatal(inErr, err)
	}
	return string(out)
}

// One process dials, and another drops its packets.
func TestNewAs(t *testing.T) {
	t.Parallel()
	pid := newNamespace(t)
	addr, conns := serve(t, pid)
	servers := map[string]int{addr: pid}
	cutter, err := New(servers)
	if err != nil {
		t.Fatal(err)
	}
	dialler, err := NewAs(cutter.Client(), servers)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dialler.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := <-conns
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	if !arrives(t, client, server) {
		t.Fatal("a line doesn't arrive before the cut")
	}
	if err := cutter.Cut(t.Context(), Both); err != nil {
		t.Fatal(err)
	}
	if arrives(t, client, server) {
		t.Error("a line arrives after the cut")
	}
}
