//go:build unix

package itest

import (
	"os"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// Row is a run of the suite on one service.
type Row struct {
	Name    string
	Harness func(*testing.T) conformance.Harness // starts the service, if no other test has

	// Like is the row whose servers run the same lock protocol and whose Lockers promise the same,
	// but for fault tolerance. "" runs all cases; see [onVariant].
	Like string
}

// Conformance runs the suite, and then the backend's own cases, on real servers. Servers are
// started when a selected run needs them: -run 'TestConformance/redis$/B21' starts one Redis. Runs
// of different services are parallel, and so are the cases of one that has a [Pool], because they
// spend most of their time waiting.
func Conformance(t *testing.T, rows []Row) {
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			NeedServers(t)
			t.Parallel()
			h := row.Harness(t)
			if h.TTL > 0 {
				h.Pack = append([]conformance.Case{pausedWriters}, h.Pack...)
			}
			if row.Like != "" && os.Getenv("LOCKER_SOAK") == "" {
				h.Wrap = variant(row.Like, h.Wrap)
			}
			conformance.Run(t, h)
		})
	}
}
