//go:build unix

package itest

import "time"

const (
	// ShortTTL is the TTL of cases that test times. Half of it is too short for a machine that is
	// busy with other tests: an answer may take a sixth of the TTL. Eight times this
	// is less than the longest TTL of Redlock's servers.
	ShortTTL = 1200 * time.Millisecond

	// ShortWait is the time that a busy machine may need for something that must happen at once.
	ShortWait = 5 * time.Second

	// LongTTL is a TTL that is much longer than any case: if something happens earlier, it has not
	// waited for this TTL.
	LongTTL = time.Minute
)
