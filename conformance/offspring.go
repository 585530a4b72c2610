package conformance

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
)

// A goroutine passes its profiler labels to the goroutines that it starts. So a case can tell its
// own goroutines from goroutines of tests that run at the same time. A goroutine that a timer starts
// (time.AfterFunc) has no labels, and isn't seen.

const offspringLabel = "conformance"

// offspring calls f. It returns a function that lists the goroutines that still run of those that f
// has started, directly or indirectly: a text for each stack, with the number of goroutines that
// have it. No other call may use the name meanwhile. f gets a context for apart.
func offspring(ctx context.Context, name string, f func(labels context.Context)) (left func() []string) {
	pprof.Do(ctx, pprof.Labels(offspringLabel, name), f)
	mark := fmt.Sprintf("%q:%q", offspringLabel, name)
	return func() []string {
		var text bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&text, 1)  // to memory
		_, stacks, _ := strings.Cut(text.String(), "\n") // the first line is the total number
		var found []string
		for stack := range strings.SplitSeq(stacks, "\n\n") {
			if _, labels, ok := strings.Cut(stack, "# labels: "); ok && strings.Contains(labels, mark) {
				found = append(found, stack)
			}
		}
		return found
	}
}

// apart calls f, whose goroutines aren't counted. labels is what offspring has called its function
// with.
func apart(labels context.Context, f func()) {
	pprof.SetGoroutineLabels(context.Background())
	defer pprof.SetGoroutineLabels(labels)
	f()
}
