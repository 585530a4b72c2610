//go:build unix

package itest

import "time"

const (
	// ShortTTL is the TTL of cases that are about time. Half of it is too short for a machine that is busy with other tests.
	ShortTTL = 800 * time.Millisecond

	// Soon is how late a busy machine may be with what must happen at once.
	Soon = 5 * time.Second

	// Far is a TTL that no case waits for: what happens earlier has not waited for it.
	Far = time.Minute
)
