package observe

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/callsite"
)

// Leak is a lease that is held, or a call of Acquire that waits, for longer than its limit. A call of
// [locker.AcquirePermit] that waits has the Slot [locker.LineSlot].
type Leak struct {
	locker.LeaseInfo
	For   time.Duration   // how long already
	Where []runtime.Frame // the callers of Acquire, the innermost first; see Leaks
}

// String is one line for a log, such as
//
//	"nightly-report" is held for 10m0s, token 1795221171926053, acquired at main.go:23 (main.main)
func (k Leak) String() string {
	text := fmt.Sprintf("%q is %s for %v", k.Name, k.State, k.For.Round(time.Millisecond))
	switch {
	case k.Slot > 0:
		text = fmt.Sprintf("slot %d of %s", k.Slot, text)
	case k.Slot == locker.LineSlot:
		text = "a permit of " + text
	}
	if k.Token != 0 {
		text += fmt.Sprintf(", token %d", k.Token)
	}
	if len(k.Where) > 0 {
		text += fmt.Sprintf(", acquired at %s:%d (%s)", filepath.Base(k.Where[0].File), k.Where[0].Line, k.Where[0].Function)
	}
	return text
}

// Leaks calls report once for each lease of l that is held for longer than heldFor, and for each
// call of Acquire that waits for longer than waitedFor. With a limit of zero it doesn't look for
// these. It finds the line of code that forgot to release.
//
// While it runs, each call of Acquire remembers where it was made, which costs about half a
// microsecond. Leak.Where begins with the caller of this module; it is empty for a call that was
// made before Leaks, and for one whose service has not answered yet.
//
// It looks every quarter of the shorter limit while l holds or waits for something, and calls
// report on a goroutine of its own. It ends with stop, which may be called twice and from report:
// when stop has returned, there are no further calls of report, but one that is under way goes on.
// After Close of l it costs nothing. When both limits are zero, Leaks does nothing. The error is
// the one of [locker.Observe].
func Leaks(l locker.Locker, heldFor, waitedFor time.Duration, report func(Leak)) (stop func(), err error) {
	pause := heldFor
	if pause <= 0 || waitedFor > 0 && waitedFor < pause {
		pause = waitedFor
	}
	if pause <= 0 {
		return func() {}, nil
	}
	f := &leakFinder{
		l: l, limits: map[string]time.Duration{locker.StateHeld: heldFor, locker.StateWaiting: waitedFor}, report: report,
		pause: max(pause/4, time.Millisecond), places: make(map[uint64]*place), reported: make(map[state]bool),
	}
	detach, err := locker.Observe(l, f, begins|ends)
	if err != nil {
		return nil, err
	}
	unwant := sync.OnceFunc(callsite.Want())
	f.begun()
	return func() {
		detach()
		unwant()
		f.end()
	}, nil
}

// The place of a call is kept from its first event in begins to its event in ends.
const (
	begins = locker.EventWaiting | locker.EventGranted
	ends   = locker.EventRefused | locker.EventReleased | locker.EventLost
)

// leakFinder is a tracer that notes where the calls of Acquire are made.
type leakFinder struct {
	l      locker.Locker
	limits map[string]time.Duration // by State
	report func(Leak)
	pause  time.Duration // between two looks

	reported map[state]bool // of look

	mu      sync.Mutex
	places  map[uint64]*place // by ID
	timer   *time.Timer       // for the next look; nil: none is due or under way
	again   bool              // a call of Acquire began since the last look
	stopped bool
}

// state is one that is reported once.
type state struct {
	id   uint64
	name string
}

type placeKey struct{ f *leakFinder } // several may be attached

func (f *leakFinder) Begin(ctx context.Context, _ locker.Request) context.Context {
	f.begun()
	p := new(place)
	if p.n = copy(p.pcs[:], callsite.Of(ctx)); p.n == 0 {
		p.n = runtime.Callers(2, p.pcs[:])
	}
	return context.WithValue(ctx, placeKey{f}, p)
}

func (f *leakFinder) Observe(ctx context.Context, e locker.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Kind&ends != 0 {
		delete(f.places, e.ID)
	} else if p, ok := ctx.Value(placeKey{f}).(*place); ok && !f.stopped {
		f.places[e.ID] = p
	}
}

// begun makes the finder look, from now on until it finds nothing that is held or waits.
func (f *leakFinder) begun() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = true
	if f.timer == nil && !f.stopped {
		f.timer = time.AfterFunc(f.pause, f.look)
	}
}

func (f *leakFinder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if f.timer != nil {
		f.timer.Stop()
	}
	clear(f.places)
}

func (f *leakFinder) hasStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

func (f *leakFinder) look() {
	known := f.ids()
	leases, _ := locker.Leases(f.l)
	current := make(map[uint64]bool, len(leases))
	for _, info := range leases {
		current[info.ID] = true
	}
	defer f.forget(known, current) // also if report ends this goroutine, as a test's FailNow does
	for _, info := range withoutLines(leases) {
		s, limit := state{info.ID, info.State}, f.limits[info.State]
		lasts := time.Since(info.Since)
		if limit <= 0 || lasts <= limit || f.reported[s] {
			continue
		}
		if f.hasStopped() {
			return
		}
		f.reported[s] = true
		f.report(Leak{info, lasts, f.where(info.ID)})
	}
	for s := range f.reported {
		if !current[s.id] {
			delete(f.reported, s)
		}
	}
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

// forget ends a look. It removes the places that were known before and are of no current call or lease.
func (f *leakFinder) forget(known []uint64, current map[uint64]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range known {
		if !current[id] {
			delete(f.places, id)
		}
	}
	again := f.again || len(current) > 0
	f.timer, f.again = nil, false
	if again && !f.stopped {
		f.timer = time.AfterFunc(f.pause, f.look)
	}
}
