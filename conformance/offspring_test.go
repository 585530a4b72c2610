package conformance

import (
	"strings"
	"testing"

	"github.com/fencedlock/locker/conformance/step"
)

// A goroutine counts that was started by one that f has started; one that another test starts meanwhile doesn't.
func TestOffspring(t *testing.T) {
	end, begin, begun := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		<-begin
		go beside(end)
		begun <- true
	}()
	left := offspring(t.Context(), t.Name(), func() {
		go func() { go leak(end) }()
		begin <- true
		<-begun
	})
	text := ""
	step.Eventually(t, step.Limit, func() bool {
		text = strings.Join(left(), "\n\n")
		return strings.HasPrefix(text, "1 @") && strings.Contains(text, "conformance.leak") && len(left()) == 1
	}, func() string { return "found " + text + ", want one goroutine in leak" })
	close(end)
	step.Eventually(t, step.Limit, func() bool { return len(left()) == 0 }, func() string { return strings.Join(left(), "\n\n") })
}

func leak(end chan bool) { <-end }

func beside(end chan bool) { <-end }
