package observe

import (
	"runtime"
	"strings"

	"github.com/fencedlock/locker/internal/callsite"
)

// place is where a call of Acquire was made.
type place struct {
	pcs [callsite.Most]uintptr
	n   int
}

const module = "github.com/fencedlock/locker"

// where returns the callers of a call of Acquire, without this module's own, which come first.
func (f *leakFinder) where(id uint64) []runtime.Frame {
	p := f.placeOf(id)
	if p == nil {
		return nil
	}
	var list []runtime.Frame
	frames := runtime.CallersFrames(p.pcs[:p.n])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.goexit" { // the call was made by a go statement
			return list
		}
		own := strings.HasPrefix(frame.Function, module+".") || strings.HasPrefix(frame.Function, module+"/")
		if len(list) > 0 || !own || strings.HasSuffix(frame.File, "_test.go") {
			list = append(list, frame)
		}
		if !more {
			return list
		}
	}
}

// placeOf is nil if the place isn't known.
func (f *leakFinder) placeOf(id uint64) *place {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.places[id]
}
