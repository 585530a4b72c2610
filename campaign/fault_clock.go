package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	conformance "github.com/fencedlock/locker/conformance/process"
)

// clockFaults are jumps of the victim's wall clock. The clock of the machine stays as it is: the
// victim is a build of this program with another function time.Now.
var clockFaults = []fault{
	jumping("clock-ahead", "the holder's wall clock jumps ahead by a minute, and the section lasts longer than the TTL", time.Minute),
	jumping("clock-back", "the holder's wall clock jumps back by a minute, and the section lasts longer than the TTL", -time.Minute),
}

func jumping(name, what string, ahead time.Duration) fault {
	return fault{
		name: name, what: what, ahead: ahead, outlasts: true, harmless: true, hazard: clientClock,
		needs: func(ctx context.Context) error {
			_, err := skewed.program(ctx)
			return err
		},
	}
}

// skewedProgram is the build of this program whose wall clock can jump. It is built when it is first
// needed, which takes some minutes if the build cache hasn't got it.
type skewedProgram struct {
	mu   sync.Mutex
	dir  string
	err  error
	done bool
}

var skewed skewedProgram

func (s *skewedProgram) program(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.done = true
		if s.dir, s.err = os.MkdirTemp("", "locker-campaign-"); s.err == nil {
			s.err = conformance.BuildSkewed(ctx, "github.com/fencedlock/locker/campaign", s.path())
		}
	}
	return s.path(), s.err
}

func (s *skewedProgram) path() string { return filepath.Join(s.dir, "campaign") }

func (s *skewedProgram) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // in the system's directory for temporary files
	}
}

// jump sets the wall clock of this process, if it is such a build, and returns when it has jumped: it
// is ahead by d from now on. In another build nothing jumps, and the round would be void.
func jump(d time.Duration) error {
	if d == 0 {
		return nil
	}
	name, value, _ := strings.Cut(conformance.ClockAhead(d), "=")
	before := time.Now().Round(0) // without the monotonic clock
	if err := os.Setenv(name, value); err != nil {
		return err
	}
	for range 1000 {
		if by := time.Now().Round(0).Sub(before); (by - d).Abs() < d.Abs()/2 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("the wall clock has not jumped by %v", d)
}
