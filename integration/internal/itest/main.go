//go:build unix

package itest

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

// Main is the body of each package's TestMain. It runs the tests, and removes the containers that
// they have started. The suite needs a holder in another process: this process is the test binary,
// too; see process.go.
//
// sideBySide is how many tests run at the same time, unless the flag -parallel says otherwise, and how
// many services of one kind there are at most. A case waits for most of its time, but several of them
// must leave enough of two processors for cases whose leases are short. Those of etcd and ZooKeeper,
// with three servers each, need most.
func Main(m *testing.M, sideBySide int) {
	logging.Disable()        // go-redis tells of each fault that a test makes
	debug.SetGCPercent(1000) // little is in memory, and garbage collection would slow the tests down
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(sideBySide))
	}
	if url := os.Getenv(holderURL); url != "" {
		os.Exit(holder(url))
	}
	go processLateness.watch()
	code := m.Run()
	removeSkewed()
	if err := removeContainers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
