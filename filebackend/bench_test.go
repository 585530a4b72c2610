//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// What the disk needs for the one write of a grant. The rest of BenchmarkAcquireRelease is this
// package's cost.
func BenchmarkBareWrite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, filebackend.BlankFile(), 0o600); err != nil {
		b.Fatal(err)
	}
	f, write, err := filebackend.OpenSynced(filepath.Dir(path), path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	record := filebackend.Encode(1, "", 1)
	for b.Loop() {
		record[0]++
		if err := write(record, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	b.ReportAllocs()
	l := open(b, b.TempDir())
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for b.Loop() {
		lease, err := l.Acquire(ctx, "x")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// The first use of a name creates its file, and writes it and its directory entry to the disk.
func BenchmarkFirstUse(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir)
	path := filepath.Join(dir, filebackend.FileName("x", 0))
	for b.Loop() {
		acquireRelease(b, l, "x")
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeld(b *testing.B) {
	dir := b.TempDir()
	acquire(b, open(b, dir), "x")
	l := open(b, dir)
	for b.Loop() {
		if _, err := locker.TryAcquire(b.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
			b.Fatal(err)
		}
	}
}

// Lockers that wait for each other: an operation is one acquisition, from the previous release to
// its own.
func BenchmarkHandOff(b *testing.B) {
	for _, contenders := range []int{2, 16} {
		b.Run(fmt.Sprintf("contenders=%d", contenders), func(b *testing.B) {
			dir := b.TempDir()
			var all sync.WaitGroup
			b.ResetTimer()
			for i := range contenders {
				l := open(b, dir)
				all.Go(func() {
					for range (b.N + i) / contenders {
						lease, err := l.Acquire(b.Context(), "x")
						if err == nil {
							err = lease.Release(b.Context())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
		})
	}
}
