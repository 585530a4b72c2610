//go:build unix

package itest

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Ports of this process are given to no other process, also while nothing listens there.
func TestFreePorts(t *testing.T) {
	const others = "LOCKER_INTEGRATION_PORTS"
	const n = blockSize + 1
	ports, err := FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != n {
		t.Fatalf("%d ports, want %d", len(ports), n)
	}
	if os.Getenv(others) != "" {
		for _, port := range ports {
			t.Logf("port %d", port)
		}
		return
	}
	seen := ports
	for range 10 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestFreePorts$")
		cmd.Env = append(os.Environ(), others+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := 0
		for line := range strings.Lines(string(out)) {
			if _, text, ok := strings.Cut(line, ": port "); ok {
				port, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil {
					t.Fatal(err)
				}
				got++
				if slices.Contains(seen, port) {
					t.Errorf("another process has got port %d as well", port)
				}
			}
		}
		if got != n {
			t.Fatalf("another process has got %d ports, want %d\n%s", got, n, out)
		}
	}
}
