package membackend

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// TestExclusionNeedsNoTimer: a request notices by itself what has expired. Times count from the
// previous step.
func TestExclusionNeedsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		for _, step := range []step{
			{0, "a", "acquire", "granted", nil},
			{8, "b", "acquire", "queued", nil},
			{1, "a", "renew", "gone", []string{"a lost", "b granted"}},
			{7, "c", "try", "refused", nil},
			{1, "c", "try", "granted", []string{"b lost"}},
			{9, "c", "expire", "false", []string{"c lost"}},
			{1, "a", "acquire", "granted", nil},
			{1, "b", "acquire", "queued", nil},
			{7, "c", "acquire", "queued", nil},
			{3, "d", "try", "refused", []string{"a lost", "c granted"}},
		} {
			time.Sleep(time.Duration(step.at)*time.Second - time.Nanosecond)
			st.stopTimers()
			time.Sleep(time.Nanosecond)
			if got := st.play(step.owner, step.do); got != step.want {
				t.Fatalf("%s of %q = %q, want %q", step.do, step.owner, got, step.want)
			}
			if got := st.takePushed(); !slices.Equal(got, step.pushed) {
				t.Fatalf("%s of %q pushed %q, want %q", step.do, step.owner, got, step.pushed)
			}
		}
	})
}

// TestHandOffBase: a grant that was handed over names the refresh from which the service counts its
// TTL, by the stamp that the client sent with it.
func TestHandOffBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		s, a, b, now := st.server, st.player("a"), st.player("b"), driver.Stamp()
		s.acquire(&a.acquisition, false, st.conn, 100, now)
		s.acquire(&b.acquisition, false, st.conn, 200, now.Add(1*time.Second))
		s.renew(&b.acquisition, 300, now.Add(2*time.Second))
		s.release(&a.acquisition, now.Add(3*time.Second))
		if b.base != 300 {
			t.Errorf("base of the grant = %d, want 300, the stamp of the last refresh", b.base)
		}
		if got, want := s.locks["lock"].expires, now.Add(2*time.Second+protocolTTL); got != want {
			t.Errorf("the grant expires %v after that refresh, want %v", got.Sub(now)-2*time.Second, protocolTTL)
		}
	})
}

// TestTokensRiseOverLossOfData: with a clock that goes on and with one that doesn't.
func TestTokensRiseOverLossOfData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		last := locker.Token(0)
		for i := range 20 {
			if i%5 == 4 {
				time.Sleep(time.Second)
			}
			s.Wipe()
			for range 3 {
				if token := s.mint(); token <= last {
					t.Fatalf("token %d after %d", token, last)
				} else {
					last = token
				}
			}
		}
		time.Sleep(time.Second)
		s.Wipe()
		if s.last != 0 {
			t.Error("the last token is still known after the loss of all data, want the clock alone")
		}
		if token, want := s.mint(), locker.Token(time.Now().UnixMicro()); token != want {
			t.Errorf("token = %d, want the clock, %d µs", token, want)
		}
	})
}
