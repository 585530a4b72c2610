package observe

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Leak is a lease that is held, or a call of Acquire that waits, for longer than its limit.
type Leak struct {
	locker.LeaseInfo
	For   time.Duration   // how long already
	Where []runtime.Frame // the callers of Acquire, the innermost first; see Leaks
}

// Leaks calls report once for each lease of l that is held for longer than heldFor, and for each call of Acquire that
// waits for longer than waitedFor. Zero: these are not looked for. It finds the line of code that forgot to release.
//
// While it runs, each call of Acquire remembers where it was made, which costs about a microsecond. Where begins with
// the caller of this module; it is empty for a call that was made before Leaks, and for one whose service has not
// answered yet.
//
// A goroutine looks every quarter of the shorter limit, and calls report. It ends with stop, which may be called twice,
// and when l was closed. The error is that of [locker.Observe].
func Leaks(l locker.Locker, heldFor, waitedFor time.Duration, report func(Leak)) (stop func(), err error) {
	f := &leakFinder{
		l: l, limits: map[string]time.Duration{"held": heldFor, "waiting": waitedFor}, report: report,
		places: make(map[uint64]*place), reported: make(map[state]bool), over: make(chan struct{}),
	}
	detach, err := locker.Observe(l, f, locker.EventWaiting|locker.EventGranted|locker.EventClosed)
	if err != nil {
		return nil, err
	}
	pause := heldFor
	if pause <= 0 || waitedFor > 0 && waitedFor < pause {
		pause = waitedFor
	}
	if pause > 0 {
		go f.run(max(pause/4, time.Millisecond))
	}
	return func() {
		detach()
		f.end()
	}, nil
}

// leakFinder is a tracer that notes where the calls of Acquire are made.
type leakFinder struct {
	l      locker.Locker
	limits map[string]time.Duration // by State
	report func(Leak)
	once   sync.Once
	over   chan struct{}

	reported map[state]bool // of the goroutine

	mu     sync.Mutex
	places map[uint64]*place // by ID
}

// state is one that is reported once.
type state struct {
	id   uint64
	name string
}

// place is where a call of Acquire was made.
type place struct {
	pcs [32]uintptr
	n   int
}

type placeKey struct{ f *leakFinder } // several may be attached

func (f *leakFinder) Begin(ctx context.Context, _ locker.Request) context.Context {
	p := new(place)
	p.n = runtime.Callers(2, p.pcs[:])
	return context.WithValue(ctx, placeKey{f}, p)
}

func (f *leakFinder) Observe(ctx context.Context, e locker.Event) {
	if e.Kind == locker.EventClosed {
		f.end()
		return
	}
	if p, ok := ctx.Value(placeKey{f}).(*place); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.places[e.ID] = p
	}
}

func (f *leakFinder) end() { f.once.Do(func() { close(f.over) }) }

func (f *leakFinder) run(pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.look()
		case <-f.over:
			return
		}
	}
}

func (f *leakFinder) look() {
	known := f.ids()
	leases, _ := locker.Leases(f.l)
	current := make(map[uint64]bool, len(leases))
	for _, info := range leases {
		current[info.ID] = true
		s, limit := state{info.ID, info.State}, f.limits[info.State]
		lasts := time.Since(info.Since)
		if limit <= 0 || lasts <= limit || f.reported[s] {
			continue
		}
		f.reported[s] = true
		f.report(Leak{info, lasts, f.where(info.ID)})
	}
	for s := range f.reported {
		if !current[s.id] {
			delete(f.reported, s)
		}
	}
	f.forget(known, current)
}

// ids are the calls whose place is known.
func (f *leakFinder) ids() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]uint64, 0, len(f.places))
	for id := range f.places {
		ids = append(ids, id)
	}
	return ids
}

// forget removes the places that were known before and are of no current call or lease.
func (f *leakFinder) forget(known []uint64, current map[uint64]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range known {
		if !current[id] {
			delete(f.places, id)
		}
	}
}

const module = "github.com/fencedlock/locker"

// where returns the callers of a call of Acquire, without those of this module that come first.
func (f *leakFinder) where(id uint64) []runtime.Frame {
	f.mu.Lock()
	p := f.places[id]
	f.mu.Unlock()
	if p == nil {
		return nil
	}
	var list []runtime.Frame
	frames := runtime.CallersFrames(p.pcs[:p.n])
	for {
		frame, more := frames.Next()
		own := strings.HasPrefix(frame.Function, module+".") || strings.HasPrefix(frame.Function, module+"/")
		if len(list) > 0 || !own || strings.HasSuffix(frame.File, "_test.go") {
			list = append(list, frame)
		}
		if !more {
			return list
		}
	}
}
