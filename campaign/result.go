package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// result is one run of the program, as it is written.
type result struct {
	Commit    string            `json:"commit"` // of this project
	Seed      uint64            `json:"seed"`
	Started   time.Time         `json:"started"` // the first part
	Seconds   int               `json:"seconds"` // of all parts
	Parts     int               `json:"parts"`   // 1, and one more for each -continue
	Parallel  int               `json:"parallel"`
	System    string            `json:"system"`
	Go        string            `json:"go"`
	Services  map[string]string `json:"services"`           // by backend
	Libraries map[string]string `json:"libraries"`          // by module
	Left      map[string]string `json:"left_out,omitempty"` // reasons, by "backend, fault"
	Notes     []string          `json:"notes,omitempty"`    // what was done by hand, for the page
	Rows      []*row            `json:"rows"`
}

func newResult(ctx context.Context, seed uint64) *result {
	r := &result{
		Commit: commit(ctx), Seed: seed, Started: time.Now().UTC().Truncate(time.Second),
		System: system(), Go: runtime.Version(), Parts: 1,
		Services: make(map[string]string), Libraries: make(map[string]string), Left: make(map[string]string),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if libraryModules[m.Path] {
				r.Libraries[m.Path] = m.Version
			}
		}
	}
	return r
}

// libraryModules are the modules of the libraries and of what they connect with.
var libraryModules = map[string]bool{
	"cirello.io/pglock":                true,
	"github.com/bsm/redislock":         true,
	"github.com/go-redsync/redsync/v4": true,
	"github.com/go-zookeeper/zk":       true,
	"github.com/jackc/pgx/v5":          true,
	"github.com/redis/go-redis/v9":     true,
	"github.com/redis/rueidis":         true,
	"go.etcd.io/etcd/client/v3":        true,
}

// commit is the commit of the working directory, or empty.
func commit(ctx context.Context) string {
	id, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(id)) + ", changed"
	}
	return strings.TrimSpace(string(id))
}

func system() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS
	}
	return fmt.Sprintf("%s %s, %s, %d processors", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]),
		runtime.GOARCH, runtime.NumCPU())
}

// write writes the rows that have rounds.
func (r *result) write(file string) error {
	r.Rows = slices.DeleteFunc(r.Rows, func(r *row) bool { return r.Rounds+r.Void == 0 })
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func readResult(file string) (*result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
