// Package verdict is what package locker shares with the engine in package driver: errors whose
// class the engine knows. No type of another module can be one of them, so a class is always one of
// the documented words.
package verdict

// Outcome is what became of a call of Acquire that failed.
type Outcome struct {
	Class string // what locker.OutcomeOf returns
	Err   error
}

func (o *Outcome) Error() string { return o.Err.Error() }
func (o *Outcome) Unwrap() error { return o.Err }

// Loss is why a lease was lost.
type Loss struct {
	Class string // what locker.LossOf returns
	Err   error
}

func (l *Loss) Error() string { return l.Err.Error() }
func (l *Loss) Unwrap() error { return l.Err }

// Died is the error of an acquisition without waiting that was over before its caller had the lease, for a
// reason that the caller may outlive by asking again.
type Died struct{ Err error }

func (d *Died) Error() string { return d.Err.Error() }
func (d *Died) Unwrap() error { return d.Err }

// Find returns the first error of type T in err, in the order of errors.As. It takes no memory, and
// calls no method As.
func Find[T error](err error) (found T, ok bool) {
	for err != nil {
		if found, ok = err.(T); ok { //nolint:errorlint // it walks the chain itself
			return found, true
		}
		switch x := err.(type) { //nolint:errorlint // the same
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, each := range x.Unwrap() {
				if found, ok = Find[T](each); ok {
					return found, true
				}
			}
			return found, false
		default:
			return found, false
		}
	}
	return found, false
}
