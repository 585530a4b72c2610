// Package demo shows the purpose of a fencing token in real time: a holder is stopped for too long,
// and writes when it wakes up.
package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// Role is the role of a holder in the story.
type Role int

const (
	A Role = iota // the holder that is stopped
	B             // the holder that comes next
)

// Mood says how an event is displayed.
type Mood int

const (
	Plain   Mood = iota
	Stopped      // the holder does nothing from now on
	Good         // the storage does the right thing
	Refused      // the storage does the right thing, and that is to refuse a write
	Bad
)

// Part is what a holder has of the lock.
type Part int

const (
	Nothing Part = iota
	Waits
	Holds // or believes so
)

// Event is one thing that happens.
type Event struct {
	At   time.Duration // since the beginning
	Role Role
	Text string
	Mood Mood
	Part Part // of Role, from this event on
}

// Title says in one line what a run of the story is about.
func Title(fenced bool) string {
	if fenced {
		return "With the fence: a token below the highest seen is refused"
	}
	return "Without the fence: the storage takes every write"
}

// Outcome is the state of the storage at the end.
type Outcome struct {
	Balance int
	Lost    bool // B's update, which had been acknowledged
}

const (
	before = 100 // the balance at first
	addsA  = 10
	addsB  = 20
)

// account is the data that the lock protects.
type account struct {
	fence   fence.Memory
	fenced  bool
	mu      sync.Mutex
	balance int
}

func (a *account) claim(ctx context.Context, token locker.Token) error {
	if !a.fenced {
		return nil
	}
	return a.fence.Claim(ctx, "account", token)
}

func (a *account) read() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.balance
}

func (a *account) write(token locker.Token, balance int) error {
	write := func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.balance = balance
		return nil
	}
	if !a.fenced {
		return write()
	}
	return a.fence.Do("account", token, write)
}

// Story is one run.
type Story struct {
	A, B   locker.Locker // of one service, each with connections of its own
	Name   string        // of the lock
	TTL    time.Duration
	Fenced bool
	Tell   func(Event) // called from one goroutine at a time

	begin time.Time
	parts [2]Part // by Role
}

func (s *Story) tell(role Role, mood Mood, format string, args ...any) {
	s.Tell(Event{At: time.Since(s.begin), Role: role, Text: fmt.Sprintf(format, args...), Mood: mood, Part: s.parts[role]})
}

// Play runs the story in real time, which takes a little longer than the lease. Both holders add to
// a balance: acquire, read, add, write. A is stopped between its read and its write. Like any
// stopped process, A renews nothing in this time.
func (s *Story) Play(ctx context.Context) (Outcome, error) {
	s.begin = time.Now()
	data := &account{fenced: s.Fenced, balance: before}
	first, err := s.A.Acquire(ctx, s.Name, locker.WithTTL(s.TTL), locker.WithoutRenewal())
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = first.Release(context.WithoutCancel(ctx)) }() // it is lost by then
	s.parts[A] = Holds
	s.tell(A, Plain, "has the lock, token %d", first.Token())
	if err := data.claim(ctx, first.Token()); err != nil {
		return Outcome{}, err
	}
	balance := data.read()
	s.tell(A, Plain, "reads %d", balance)
	s.tell(A, Stopped, "is stopped")

	if err := s.second(ctx, data); err != nil {
		return Outcome{}, err
	}
	select {
	case <-time.After(s.TTL / 4):
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
	s.tell(A, Plain, "wakes up, writes %d with its token", balance+addsA)
	switch err := data.write(first.Token(), balance+addsA); {
	case errors.Is(err, fence.ErrStale):
		s.tell(A, Refused, "storage refuses the smaller token")
	case err != nil:
		return Outcome{}, err
	default:
		s.tell(A, Bad, "storage accepts: B's update is gone")
	}
	out := Outcome{Balance: data.read()}
	out.Lost = out.Balance != before+addsB
	return out, nil
}

// second does the work of B, while A is stopped.
func (s *Story) second(ctx context.Context, data *account) error {
	s.parts[B] = Waits
	s.tell(B, Plain, "wants the lock, waits")
	lease, err := s.B.Acquire(ctx, s.Name, locker.WithTTL(s.TTL))
	if err != nil {
		return err
	}
	s.parts[B] = Holds
	s.tell(B, Plain, "has the lock, token %d", lease.Token())
	if err := data.claim(ctx, lease.Token()); err != nil {
		return err
	}
	balance := data.read()
	s.tell(B, Plain, "reads %d, writes %d", balance, balance+addsB)
	if err := data.write(lease.Token(), balance+addsB); err != nil {
		return err
	}
	s.tell(B, Good, "storage accepts")
	if err := lease.Release(ctx); err != nil {
		return err
	}
	s.parts[B] = Nothing
	s.tell(B, Plain, "is done, releases the lock")
	return nil
}
