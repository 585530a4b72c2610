package kit

import "sync"

// Parallel calls f for each item, at most width at a time, and returns when all calls have returned.
// width is 1 or more.
func Parallel[T any](width int, items []T, f func(T)) {
	if len(items) == 1 {
		f(items[0])
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, width)
	for _, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(item)
		})
	}
	all.Wait()
}
