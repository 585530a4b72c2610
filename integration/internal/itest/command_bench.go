//go:build unix

package itest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const (
	// benchTTL is long enough for a busy machine: a lease that is renewed late has a third of it left.
	benchTTL = 3 * commandTTL

	// removedIn is how long the servers may need to clear away what was removed. A lock that was left to
	// its TTL is still there then.
	removedIn = benchTTL / 3
)

// bench runs locker bench on a service, which must be fit, and interrupts another run of it. Nothing
// is left of either. LOCKER_BENCH has other flags, for figures: then there is one run, and the servers
// may need longer to clear away what was removed.
func bench(t *testing.T, binary string, s CommandService) {
	flags := []string{"--for", "2s", "--leases", "200", "--ttl", benchTTL.String()}
	own, figures := os.LookupEnv("LOCKER_BENCH")
	if figures {
		flags = strings.Fields(own)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"bench"}, flags...)...)
	cmd.Env = append(os.Environ(), "LOCKER_URL="+s.URL)
	out, err := cmd.CombinedOutput()
	t.Logf("locker bench %s\n%s", strings.Join(flags, " "), out)
	if err != nil {
		t.Errorf("locker bench = %v, want nil", err)
	}
	if figures {
		return
	}
	wantResidue(t, s.Residue, removedIn)
	interrupted := startCommand(t, binary, s.URL, "bench", "--for", "500ms", "--leases", "200", "--ttl", benchTTL.String())
	for line := ""; !strings.HasPrefix(line, "hand-off "); { // the leases are being acquired now, or held
		line = interrupted.line(t)
	}
	interrupted.signal(t, syscall.SIGINT)
	interrupted.wantCode(t, 128+2)
	wantResidue(t, s.Residue, removedIn)
}
