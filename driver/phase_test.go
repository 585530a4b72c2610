package driver

import (
	"fmt"
	"sync"
)

var taken struct {
	sync.Mutex
	rows [len(transitions)]bool
}

// All tests of this package run with this check.
func init() {
	observeTransition = func(from, to phase) {
		for i, t := range transitions {
			if t.from == from && t.to == to {
				taken.Lock()
				taken.rows[i] = true
				taken.Unlock()
				return
			}
		}
		panic(fmt.Sprintf("transition from phase %d to phase %d is not in the table", from, to))
	}
}

// TransitionsNeverTaken returns the rows of the table that no test has taken so far.
func TransitionsNeverTaken() []string {
	taken.Lock()
	defer taken.Unlock()
	var rows []string
	for i, t := range transitions {
		if !taken.rows[i] {
			rows = append(rows, fmt.Sprintf("from phase %d to phase %d, when %s", t.from, t.to, t.when))
		}
	}
	return rows
}
