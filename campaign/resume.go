package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
)

// resume returns the result that a run goes on with: the one in the file, or r if there is no file.
// What was run before must be the same as now. Seed 0 is the file's.
func (r *result) resume(file string, seed uint64) (*result, error) {
	earlier, err := readResult(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		what      string
		same      bool
		then, now any
	}{
		{"commit", earlier.Commit == r.Commit, earlier.Commit, r.Commit},
		{"seed", seed == 0 || seed == earlier.Seed, earlier.Seed, seed},
		{"machine", earlier.System == r.System, earlier.System, r.System},
		{"Go", earlier.Go == r.Go, earlier.Go, r.Go},
		{"libraries", maps.Equal(earlier.Libraries, r.Libraries), earlier.Libraries, r.Libraries},
	} {
		if !c.same {
			return nil, fmt.Errorf("%s can't be continued, %s: it has %v, and now it is %v", file, c.what, c.then, c.now)
		}
	}
	earlier.Parts++
	if earlier.Left == nil {
		earlier.Left = make(map[string]string)
	}
	return earlier, nil
}

// enter returns the row with the same names as new, or adds new.
func (r *result) enter(new *row) *row {
	for _, e := range r.Rows {
		if e.Backend == new.Backend && e.Fault == new.Fault && e.Workload == new.Workload && e.Library == new.Library && e.Fence == new.Fence {
			return e
		}
	}
	r.Rows = append(r.Rows, new)
	return new
}

// leave notes why a fault is left out; empty: it isn't.
func (r *result) leave(b backend, f fault, why string) {
	key := b.name + ", " + f.name
	if r.Left[key] = why; why == "" {
		delete(r.Left, key)
	}
}
