package filebackend_test

import (
	"context"
	"os"
	"os/exec"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func ExampleNew() {
	ctx := context.Background()
	dir, err := filebackend.DefaultDir()
	if err != nil {
		panic(err)
	}
	l, err := filebackend.New(dir)
	if err != nil {
		panic(err)
	}
	defer l.Close()
	err = locker.Do(ctx, l, "nightly-report", func(_ context.Context, _ locker.Lease) error {
		return nil // only one process of this user at a time gets here
	})
	if err != nil {
		panic(err)
	}
}

// A child that has the descriptor keeps the lock if this process is killed before the child has
// ended.
func ExampleHandle() {
	run := func(lease locker.Lease) error {
		cmd := exec.Command("make", "report")
		if h, ok := locker.As[filebackend.Handle](lease); ok {
			f, err := h.File()
			if err != nil {
				return err
			}
			defer f.Close()
			cmd.ExtraFiles = []*os.File{f}
		}
		return cmd.Run()
	}
	_ = run
}
