package main

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stalls notes when the machine was too busy: it didn't run this program for a while, or had far more
// to do than it can. A verdict that rests on time is void then. The contenders are on the same
// machine with the same priority, and the servers wait for its processors and its disk.
type stalls struct {
	mu   sync.Mutex
	last moment   // when the program was seen to run
	ends []moment // of the stalls, and when the machine was overloaded
}

const (
	stallTick = 10 * time.Millisecond

	// stallLimit is the shortest stall that counts. It is far below the TTLs, because a contender may
	// have stalled for longer than this program.
	stallLimit = 250 * time.Millisecond

	loadEach = time.Second

	// mostLoad is the load average of a minute, for each processor, above which the machine is
	// overloaded. It counts what waits for a processor or for the disk.
	mostLoad = 6
)

// tooBusy is why a round is void.
const tooBusy = "the machine stalled or was overloaded"

// watch notes stalls until stop is called.
func (s *stalls) watch() (stop func()) {
	stopped := make(chan struct{})
	go func() {
		ticker := time.NewTicker(stallTick)
		defer ticker.Stop()
		load := time.NewTicker(loadEach)
		defer load.Stop()
		for {
			s.run(now())
			select {
			case <-ticker.C:
			case <-load.C:
				text, _ := os.ReadFile("/proc/loadavg") // Linux has it
				if overloaded(string(text), runtime.NumCPU()) {
					s.note(now())
				}
			case <-stopped:
				return
			}
		}
	}()
	return func() { close(stopped) }
}

// run notes that the program runs.
func (s *stalls) run(at moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != 0 && at.sub(s.last) >= stallLimit {
		s.ends = append(s.ends, at)
	}
	s.last = max(s.last, at)
}

func (s *stalls) note(at moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, at)
}

// overloaded reads /proc/loadavg, such as "12.08 3.08 5.17 2/301 4711".
func overloaded(loadavg string, processors int) bool {
	minute, _, _ := strings.Cut(loadavg, " ")
	load, err := strconv.ParseFloat(minute, 64)
	return err == nil && load > float64(mostLoad*processors)
}

// since reports whether there was a stall that ended after begin, or an overload.
func (s *stalls) since(begin moment) bool {
	s.run(now()) // the watch may not have run yet after a stall
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.ends, func(end moment) bool { return end > begin })
}
