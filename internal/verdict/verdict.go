// Package verdict is what package locker shares with the engine in package driver: errors whose
// class the engine knows. No type of another module can be one of them, so a class is always one of
// the documented words.
package verdict

import "errors"

// ErrNoAnswer is kit.ErrNoAnswer, which the engine can't import.
var ErrNoAnswer = errors.New("no answer in time")

// Outcome is what became of a call of Acquire that failed.
type Outcome struct {
	Class string // what locker.Outcome returns
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
