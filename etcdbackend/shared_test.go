package etcdbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/etcdbackend"
)

var errCut = errors.New("the network was cut")

// calls are those of one Shared. Each takes a second, and the first of them fail.
type calls struct {
	etcdbackend.Shared
	failures, made int
}

func (c *calls) call(context.Context) error {
	c.made++
	made := c.made
	time.Sleep(time.Second)
	if made <= c.failures {
		return errCut
	}
	return nil
}

// ask asks for a call, after a while; the answer comes on the channel.
func (c *calls) ask(ctx context.Context, after time.Duration) <-chan error {
	answer := make(chan error, 1)
	go func() {
		time.Sleep(after)
		answer <- c.Do(ctx, c.call)
	}()
	return answer
}

func TestSharedCall(t *testing.T) {
	const soon, later = 10 * time.Millisecond, 500 * time.Millisecond
	for _, tc := range []struct {
		why      string
		failures int
		asked    []time.Duration
		want     []error // of each who asked
		made     int
	}{
		{"alone", 0, []time.Duration{0}, []error{nil}, 1},
		{"alone, and it fails: that is the answer", 1, []time.Duration{0}, []error{errCut}, 1},
		{"together", 0, []time.Duration{0, soon, later}, []error{nil, nil, nil}, 1},
		{"who came when it was under way isn't told of its failure, and those all join one more", 1, []time.Duration{0, soon, later}, []error{errCut, nil, nil}, 2},
		{"the second fails too, which began after all had asked", 2, []time.Duration{0, soon, later}, []error{errCut, errCut, errCut}, 2},
		{"one after the other", 1, []time.Duration{0, 2 * time.Second}, []error{errCut, nil}, 2},
	} {
		t.Run(tc.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &calls{failures: tc.failures}
				var answers []<-chan error
				for _, after := range tc.asked {
					answers = append(answers, c.ask(t.Context(), after))
				}
				for i, answer := range answers {
					if err := <-answer; !errors.Is(err, tc.want[i]) {
						t.Errorf("who asked after %v was told %v, want %v", tc.asked[i], err, tc.want[i])
					}
				}
				if c.made != tc.made {
					t.Errorf("%d calls were made, want %d", c.made, tc.made)
				}
			})
		})
	}
}

// Who goes leaves the call to the others.
func TestSharedCallOutlivesWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		first, second := c.ask(ctx, 0), c.ask(t.Context(), 10*time.Millisecond)
		if err := <-first; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who went was told %v, want an error that doesn't say that a caller's time was up", err)
		}
		if err := <-second; err != nil || c.made != 1 {
			t.Errorf("who stayed was told %v after %d calls, want nil after 1", err, c.made)
		}
	})
}
