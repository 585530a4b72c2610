package conformance

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
)

// A goroutine passes its profiler labels to the goroutines that it starts. So a case can tell its
// own goroutines from goroutines of tests that run at the same time. A goroutine that a timer starts
// (time.AfterFunc) has no labels, and isn't seen.

const offspringLabel = "conformance"

// offspring calls f. It returns a function that lists the goroutines that still run of those that f
// has started, directly or indirectly, as running does. f gets a context for running and apart.
func offspring(ctx context.Context, name string, f func(labels context.Context)) (left func() []string) {
	var labels context.Context
	name = fmt.Sprintf("%s %d", name, families.Add(1))
	pprof.Do(ctx, pprof.Labels(offspringLabel, name), func(ctx context.Context) {
		labels = ctx
		f(ctx)
	})
	return func() []string { return running(labels) }
}

// families counts the calls of offspring: the same case may run several times at the same time.
var families atomic.Int64

// running lists goroutines: a text for each stack, with the number of goroutines that have it. labels
// is what offspring has called its function with. While that function runs, its own goroutine is
// among them.
func running(labels context.Context) (found []string) {
	name, _ := pprof.Label(labels, offspringLabel)
	mark := fmt.Sprintf("%q:%q", offspringLabel, name)
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1)  // to memory
	_, stacks, _ := strings.Cut(text.String(), "\n") // the first line is the total number
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if _, labels, ok := strings.Cut(stack, "# labels: "); ok && strings.Contains(labels, mark) {
			found = append(found, stack)
		}
	}
	return found
}

// inAll is the number of goroutines in a list of running.
func inAll(stacks []string) (n int) {
	for _, stack := range stacks {
		number, _, _ := strings.Cut(stack, " ")
		k, _ := strconv.Atoi(number)
		n += k
	}
	return n
}

// apart calls f, whose goroutines aren't counted. labels is what offspring has called its function
// with.
func apart(labels context.Context, f func()) {
	pprof.SetGoroutineLabels(context.Background())
	defer pprof.SetGoroutineLabels(labels)
	f()
}
