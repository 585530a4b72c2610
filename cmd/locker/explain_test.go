package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker/filebackend"
)

// Only a TTL that was asked for is what files don't support.
func TestExplainWhatIsNotSupported(t *testing.T) {
	for _, ttl := range []bool{true, false} {
		err := lockFailure(fmt.Errorf("file: %w here", errors.ErrUnsupported))
		a := &acquirer{name: "x", held: exitHeld, ttl: ttl}
		if got := a.explain(err, filebackend.Guarantees()).Error(); strings.Contains(got, "--ttl") != ttl {
			t.Errorf("with --ttl %v: %s", ttl, got)
		}
	}
}
