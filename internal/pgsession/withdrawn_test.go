package pgsession

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// A caller that leaves before its call was sent withdraws it: it is never executed.
func TestUnsentIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := &cuttable{release: make(chan struct{})}
		s, v := servingThrough(t, func(c net.Conn) net.Conn { stream.Conn = c; return stream })
		stream.cutAfter(1 << 20) // all writes wait, and then get through
		first := call(t.Context(), s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		withdrawn, last := call(ctx, s, 2), call(t.Context(), s, 3)
		cancel()
		if err := <-withdrawn; !errors.Is(err, kit.ErrNotSent) || !errors.Is(err, locker.ErrNoAnswer) {
			t.Errorf("a call that was not sent = %v, want kit.ErrNotSent", err)
		}
		close(stream.release)
		if err := errors.Join(<-first, <-last); err != nil {
			t.Error(err)
		}
		if v.times(text(AdvisoryUnlock(2))) != 0 {
			t.Error("a call that was withdrawn was executed")
		}
		if _, err := s.CallFunctions(ctx, time.Hour, BackendPID()); !errors.Is(err, kit.ErrNotSent) || v.times("2026") != 0 {
			t.Errorf("a call of somebody who has left = %v, want kit.ErrNotSent", err)
		}
	})
}

// A statement that is withdrawn leaves its turn to the next one.
func TestWithdrawnStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := &cuttable{release: make(chan struct{})}
		mine, theirs := net.Pipe()
		stream.Conn = mine
		stream.cutAfter(1 << 20)
		s := New(&Conn{stream: socket(stream)}, Settings{})
		s.Start(func(error) {})
		go func() { _, _ = s.CallFunctions(t.Context(), time.Hour, AdvisoryUnlock(1)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Exec(ctx, "SELECT 1"); !errors.Is(err, kit.ErrNotSent) {
			t.Errorf("Exec = %v, want kit.ErrNotSent", err)
		}
		if len(s.turn) != 0 || len(s.queue) != 0 {
			t.Error("a statement that was withdrawn still has its turn")
		}
		close(stream.release)
		_ = theirs.Close()
	})
}
