package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stopLimit is how long awaitStopped waits. A process stops within a millisecond, unless the machine
// is overloaded.
const stopLimit = time.Second

// awaitStopped returns when all threads of the process have stopped or ended, or after stopLimit.
func awaitStopped(pid int) {
	for end := time.Now().Add(stopLimit); !stopped(pid) && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
}

func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is valid
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		// The state follows the name, which is in parentheses and may have others in it.
		state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
		if len(state) > 0 && bytes.IndexByte([]byte("TtZXx"), state[0]) < 0 {
			return false
		}
	}
	return true
}
