package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
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

	loadEach = 100 * time.Millisecond

	// mostLoad is the load for each processor above which the machine is overloaded. There are two:
	// the mean of a minute, of what waits for a processor or for the disk, and the mean of the last
	// second, of what could run. A storm of connections is over when the first one shows it.
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
		l := loads{processors: runtime.NumCPU()}
		for {
			s.run(now())
			select {
			case <-ticker.C:
			case <-load.C:
				text, _ := os.ReadFile("/proc/loadavg") // Linux has it
				if l.over(string(text)) {
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

// loads is what /proc/loadavg showed in the last second.
type loads struct {
	processors int
	runnable   [time.Second / loadEach]float64
	next       int
}

// over reads /proc/loadavg, such as "12.08 3.08 5.17 2/301 4711", and reports whether the machine is
// overloaded.
func (l *loads) over(loadavg string) bool {
	var minute, rest, runnable float64
	if _, err := fmt.Sscanf(loadavg, "%f %f %f %f/", &minute, &rest, &rest, &runnable); err != nil {
		return false
	}
	l.runnable[l.next] = runnable
	l.next = (l.next + 1) % len(l.runnable)
	sum := 0.0
	for _, n := range l.runnable {
		sum += n
	}
	most := float64(mostLoad * l.processors)
	return minute > most || sum > most*float64(len(l.runnable))
}

// since reports whether there was a stall that ended after begin, or an overload.
func (s *stalls) since(begin moment) bool {
	s.run(now()) // the watch may not have run yet after a stall
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.ends, func(end moment) bool { return end > begin })
}
