package driver

// phase is how far an acquisition has come.
type phase int

const (
	prepared phase = iota // nothing was sent
	asking                // a request is under way, the next one is waited for, or a grant is verified
	queued                // it has its place in the service's queue; its moment is the next renewal
	holding               // it is a lease; its moment is the next renewal or the deadline
	kept                  // the lease is over, and its minimum hold isn't; its moment is the next renewal or the end of that
	ended                 // no lease comes of it; its removal waits for the outcome of its call
	removing              // it is over; its moment is the next call of Release
	gone                  // the removal is confirmed or given up, or there was nothing to remove
)

// transitions are all the ways from one phase to the next. The tests of this package fail when
// another one is taken, and when one of these never is.
var transitions = [...]struct {
	from, to phase
	when     string
}{
	{prepared, asking, "the first request goes out"},
	{prepared, gone, "the acquisition is over before that"},
	{asking, queued, "the driver returns ErrQueued"},
	{queued, asking, "the driver returns anything else, or the place is lost or given up"},
	{asking, holding, "the grant is fresh, and the caller still wants it"},
	{asking, ended, "the acquisition fails, is lost or given up, or the locker is closed"},
	{queued, ended, "the acquisition fails, is lost or given up, or the locker is closed"},
	{ended, removing, "the outcome of its call is noted, or the wait goes on with a new acquisition"},
	{holding, removing, "the lease is released or lost, or the locker is closed"},
	{holding, kept, "the lease is released, or the locker is closed, before the minimum hold is over"},
	{kept, removing, "the minimum hold is over, or the lock is lost"},
	{removing, gone, "a call of Release returns nil, or Close gives the removal up"},
}

// become is the only place where the phase of an acquisition changes. The engine's mutex is held.
func (l *lease) become(next phase) {
	if observeTransition != nil {
		observeTransition(l.phase, next)
	}
	l.phase = next
}

// observeTransition is set by the tests of this package only.
var observeTransition func(from, to phase)
