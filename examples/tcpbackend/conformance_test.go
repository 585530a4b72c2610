//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
)

// TestConformance runs the whole suite.
func TestConformance(t *testing.T) { conformance.Run(t, harness) }

// TestExplore runs random programs: what the cases of the suite don't try.
func TestExplore(t *testing.T) {
	h := harness
	h.Wrap = nil
	conformance.Explore(t, h, conformance.Budget{Time: 5 * time.Second})
}

// TestMain makes this binary a server or a holder when it has such arguments.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == "serve" || os.Args[1] == "hold") {
		main()
		return
	}
	runSideBySide()
	code := m.Run()
	_ = os.RemoveAll(programs())
	os.Exit(code)
}

// runSideBySide runs eight cases at a time, unless the flag -parallel says otherwise: most of them wait.
func runSideBySide() {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", "8")
	}
}

// programs is a directory for the programs that tests build.
var programs = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "tcpbackend-")
	if err != nil {
		panic(err)
	}
	return dir
})

// skewed builds a holder whose clock can be wrong. That takes a minute or two, and a second when
// the build cache has it.
var skewed = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	program := filepath.Join(programs(), "holder")
	if err := process.BuildSkewed(ctx, ".", program); err != nil {
		return "", fmt.Errorf("a holder with a clock of its own: %w", err)
	}
	return program, nil
})
