package conformance

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
)

// A goroutine hands its profiler labels down to those that it starts. So a case can tell its own from what other tests do beside it.
// What a timer starts (time.AfterFunc) has no labels, and isn't seen.

const offspringLabel = "conformance"

// offspring calls f, and returns a function that lists the goroutines that are left of those that f has started, and of those that
// these have: a text for each kind, with their number and the stack that they have. No other call may use the name meanwhile.
func offspring(ctx context.Context, name string, f func()) (left func() []string) {
	pprof.Do(ctx, pprof.Labels(offspringLabel, name), func(context.Context) { f() })
	mark := fmt.Sprintf("%q:%q", offspringLabel, name)
	return func() []string {
		var text bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&text, 1)  // to memory
		_, stacks, _ := strings.Cut(text.String(), "\n") // the first line is their total
		var found []string
		for stack := range strings.SplitSeq(stacks, "\n\n") {
			if _, labels, ok := strings.Cut(stack, "# labels: "); ok && strings.Contains(labels, mark) {
				found = append(found, stack)
			}
		}
		return found
	}
}
