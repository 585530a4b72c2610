package redlockbackend_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// The error of a Close whose time is up names the servers that are still to answer, also those whose
// earlier requests were answered in time.
func TestCloseNamesServersThatAreToAnswer(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised)
	answer := c.servers[2].gated(t, "acquire", raised)
	if _, err := c.lock(t, true).Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.asked(t, 2, "acquire", 1)
	d := c.Driver
	c.Driver = unclosed{d}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.Close(ended)
	if !errors.Is(err, locker.ErrNoAnswer) || !strings.Contains(err.Error(), c.servers[2].addr) || strings.Contains(err.Error(), c.servers[0].addr) {
		t.Errorf("Close while %s is to answer = %v, want that it names this server alone", c.servers[2].addr, err)
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), d)
}
