//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker/filebackend"
)

// After a notice there are a few tries, one soon after the other, and then the long pause again.
func TestPaceAfterNotice(t *testing.T) {
	notified, _ := filebackend.Longest()
	p := filebackend.NewPace(true)
	p.Notice()
	var pauses []time.Duration
	for range 4 {
		_, pause := p.Next()
		pauses = append(pauses, pause)
		p.Silence()
	}
	want := []time.Duration{time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	if listen, pause := p.Next(); !listen || pause < notified/4 || pause > notified {
		t.Errorf("then listen = %v, %v, want a slow look", listen, pause)
	}
}

// However many notices come, a waiter tries twice a millisecond at most.
func TestPaceUnderStorm(t *testing.T) {
	for _, before := range []int{0, 1, 2, 5} {
		p := filebackend.NewPace(true)
		p.Notice()
		for range before {
			p.Silence()
		}
		p.Notice()
		if listen, pause := p.Next(); listen || pause < time.Millisecond {
			t.Errorf("after a notice listen = %v, pause %v: the next notice would be followed at once", listen, pause)
		}
	}
}

func TestPaceWithoutNotices(t *testing.T) {
	_, polled := filebackend.Longest()
	p := filebackend.NewPace(false)
	seen := map[time.Duration]bool{}
	for range 20 {
		_, pause := p.Next()
		if pause < 10*time.Millisecond || pause > polled {
			t.Errorf("pause %v, want 10ms to %v", pause, polled)
		}
		seen[pause] = true
		p.Silence()
	}
	if len(seen) == 1 {
		t.Error("the pauses have no jitter")
	}
}
