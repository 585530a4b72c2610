package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker/conformance/step"
)

// A goroutine counts if a goroutine that f has started has started it. A goroutine that another
// test starts at the same time doesn't count.
func TestOffspring(t *testing.T) {
	end, begin, begun := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		<-begin
		go other(end)
		begun <- true
	}()
	left := offspring(t.Context(), t.Name(), func(labels context.Context) {
		go func() { go leak(end) }()
		apart(labels, func() { go other(end) })
		begin <- true
		<-begun
	})
	step.Eventually(t, step.Limit, func() error {
		text := strings.Join(left(), "\n\n")
		if !strings.HasPrefix(text, "1 @") || !strings.Contains(text, "conformance.leak") || len(left()) != 1 {
			return errors.New("found " + text + ", want one goroutine in leak")
		}
		return nil
	})
	close(end)
	step.Eventually(t, step.Limit, func() error {
		if stacks := left(); len(stacks) > 0 {
			return errors.New(strings.Join(stacks, "\n\n"))
		}
		return nil
	})
}

func leak(end chan bool) { <-end }

func other(end chan bool) { <-end }
