//go:build unix

package integration

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
	pgtest "github.com/fencedlock/locker/integration/pg"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// TestMoney runs examples/money. The database keeps the sum right with and without the lock; with
// the lock there are no conflicts, so no work has to be repeated.
func TestMoney(t *testing.T) {
	itest.NeedServers(t)
	binary := build(t, "examples/money")
	data := pgtest.FenceURL(t, pgtest.Standalone(t))
	for _, tc := range []struct {
		name      string
		args      []string
		conflicts bool
	}{
		{"locked", []string{"--lock=" + redistest.Standalone(t).URL}, false},
		{"unlocked", []string{"--no-lock"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), binary, append(tc.args, "--data="+data)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var transfers, conflicts, sum int
			if _, err := fmt.Sscanf(string(out), "%d transfers, %d conflicts, the sum is %d", &transfers, &conflicts, &sum); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			t.Logf("%s", out)
			if sum != 2000 || transfers != 100 || tc.conflicts != (conflicts > 0) {
				t.Errorf("%d transfers, %d conflicts and a sum of %d; want 100 transfers, conflicts only without the lock, and a sum of 2000", transfers, conflicts, sum)
			}
		})
	}
}
