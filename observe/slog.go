package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencedlock/locker"
)

// Slog returns an observer that logs to h. Without options the levels are:
//
//	Error   a lease was lost; Close could not confirm everything
//	Warn    a renewal or a removal failed; an acquisition was requeued; Acquire failed because of the service;
//	        a hold or a wait was longer than SlogSlow says
//	Info    a call of Acquire has to wait
//	Debug   everything else, also grants and releases: for these as Info see the example of SlogLevels
//
// The message is "lock" and the kind of the event, as in "lock lost". The record has the time of
// the event, and the attributes are in a group "lock": backend, and what the event has of name,
// slot, id, token, holder, took, held, left, ahead, tries, outcome, loss and cause. h gets the
// context of the acquisition, so a handler that adds the ids of a trace finds them.
func Slog(h slog.Handler, opts ...SlogOption) locker.Observer {
	s := &logger{handler: h}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// SlogOption changes what [Slog] logs.
type SlogOption func(*logger)

// SlogLevels sets the function that decides on the level of each event. [SlogSlow] has no effect then.
func SlogLevels(level func(locker.Event) slog.Level) SlogOption {
	return func(s *logger) { s.level = level }
}

// SlogSlow logs as Warn, when they are over, a lease that was held for longer than heldFor and a call
// of Acquire that took longer than waitedFor. Zero: there is no such limit. The first in the line for permits waits
// while it has the line's lock, so for the release of that lock the limit is waitedFor.
func SlogSlow(heldFor, waitedFor time.Duration) SlogOption {
	return func(s *logger) { s.heldFor, s.waitedFor = heldFor, waitedFor }
}

type logger struct {
	handler            slog.Handler
	level              func(locker.Event) slog.Level // nil: levelOf
	heldFor, waitedFor time.Duration
}

func (s *logger) levelOf(e locker.Event) slog.Level {
	switch e.Kind {
	case locker.EventLost:
		return slog.LevelError
	case locker.EventClosed:
		if e.Cause != nil {
			return slog.LevelError
		}
	case locker.EventRenewalFailed, locker.EventRemoving, locker.EventRequeued:
		return slog.LevelWarn
	case locker.EventRefused:
		if locker.OutcomeOf(e.Cause) == locker.OutcomeError || isSlow(e.Took, s.waitedFor) {
			return slog.LevelWarn
		}
	case locker.EventGranted:
		if isSlow(e.Took, s.waitedFor) {
			return slog.LevelWarn
		}
	case locker.EventReleased:
		limit := s.heldFor
		if e.Slot == locker.LineSlot {
			limit = s.waitedFor
		}
		if isSlow(e.Held, limit) {
			return slog.LevelWarn
		}
	case locker.EventWaiting:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func isSlow(d, limit time.Duration) bool { return limit > 0 && d > limit }

func (s *logger) Observe(ctx context.Context, e locker.Event) {
	levelOf := s.levelOf
	if s.level != nil {
		levelOf = s.level
	}
	level := levelOf(e)
	if !s.handler.Enabled(ctx, level) {
		return
	}
	record := slog.NewRecord(e.Time, level, "lock "+e.Kind.String(), 0)
	record.AddAttrs(slog.Attr{Key: "lock", Value: slog.GroupValue(attributes(e)...)})
	_ = s.handler.Handle(ctx, record) // nothing is left to log to
}

// attributes returns the attributes that the event has.
func attributes(e locker.Event) []slog.Attr {
	attrs := []slog.Attr{slog.String("backend", e.Backend)}
	add := func(has bool, attr slog.Attr) {
		if has {
			attrs = append(attrs, attr)
		}
	}
	add(e.Name != "", slog.String("name", e.Name))
	add(e.Slot != 0, slog.Int("slot", e.Slot))
	add(e.ID != 0, slog.Uint64("id", e.ID))
	add(e.Token != 0, slog.Int64("token", int64(e.Token)))
	add(e.Holder != "", slog.String("holder", e.Holder))
	add(e.Took != 0, slog.Duration("took", e.Took))
	add(e.Held != 0, slog.Duration("held", e.Held))
	add(e.Left != 0, slog.Duration("left", e.Left))
	add(e.Ahead != 0, slog.Int("ahead", e.Ahead))
	add(e.Tries != 0, slog.Int("tries", e.Tries))
	add(e.Kind == locker.EventRefused, slog.String("outcome", locker.OutcomeOf(e.Cause)))
	add(e.Kind == locker.EventLost, slog.String("loss", locker.LossOf(e.Cause)))
	if e.Cause != nil {
		add(true, slog.String("cause", e.Cause.Error()))
	}
	return attrs
}
