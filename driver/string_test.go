package driver_test

import (
	"fmt"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// What is printed is not what the engine's mutex guards, and has no options of the program.
func TestLeasesAndLockersInLogs(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	lease, err := locker.TryAcquire(t.Context(), l, "nightly report")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{l, "locker on mem"},
		{lease, fmt.Sprintf("lease on %q of mem, token %d", "nightly report", lease.Token())},
	} {
		for _, verb := range []string{"%v", "%s", "%+v"} {
			if got := fmt.Sprintf(verb, c.value); got != c.want {
				t.Errorf("%s is %q, want %q", verb, got, c.want)
			}
		}
	}
}
