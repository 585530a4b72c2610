package observe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/observe"
)

var errService = errors.New("connection refused")

func TestSlogLevels(t *testing.T) {
	lost := errors.Join(locker.ErrLost, errService)
	for _, tc := range []struct {
		event locker.Event
		want  string // the level and some of the text
	}{
		{locker.Event{Kind: locker.EventLost, Cause: lost}, `level=ERROR msg="lock lost" | lock.loss=revoked | lock.cause=`},
		{locker.Event{Kind: locker.EventClosed, Cause: errService}, `level=ERROR | lock.cause="connection refused"`},
		{locker.Event{Kind: locker.EventClosed}, `level=DEBUG msg="lock closed" lock.backend=mem`},
		{locker.Event{Kind: locker.EventRenewalFailed, Cause: errService, Tries: 2, Left: time.Second}, `level=WARN msg="lock renewal failed" | lock.left=1s lock.tries=2 lock.cause=`},
		{locker.Event{Kind: locker.EventRemoving, Cause: errService, Tries: 1}, `level=WARN msg="lock removing" | lock.tries=1`},
		{locker.Event{Kind: locker.EventRequeued, Cause: errService}, `level=WARN | lock.cause`},
		{locker.Event{Kind: locker.EventRefused, Cause: errService}, `level=WARN | lock.outcome=error`},
		{locker.Event{Kind: locker.EventRefused, Cause: locker.ErrHeld, Took: time.Minute}, `level=DEBUG | lock.took=1m0s lock.outcome=held`},
		{locker.Event{Kind: locker.EventRefused, Cause: locker.ErrHeld, Took: time.Minute + 1}, `level=WARN | lock.outcome=held`},
		{locker.Event{Kind: locker.EventGranted, Took: time.Minute, Token: 7, ID: 3}, `level=DEBUG msg="lock granted" | lock.id=3 lock.token=7 lock.took=1m0s`},
		{locker.Event{Kind: locker.EventGranted, Took: time.Hour}, `level=WARN`},
		{locker.Event{Kind: locker.EventReleased, Held: time.Hour}, `level=DEBUG | lock.held=1h0m0s`},
		{locker.Event{Kind: locker.EventReleased, Held: time.Hour + 1}, `level=WARN`},
		{locker.Event{Kind: locker.EventReleased, Held: time.Minute, Slot: locker.LineSlot}, `level=DEBUG`},
		{locker.Event{Kind: locker.EventReleased, Held: time.Minute + 1, Slot: locker.LineSlot}, `level=WARN`},
		{locker.Event{Kind: locker.EventWaiting, Ahead: 2, Name: "a b"}, `level=INFO msg="lock waiting" lock.backend=mem lock.name="a b" lock.ahead=2`},
		{locker.Event{Kind: locker.EventRenewed}, `level=DEBUG`},
		{locker.Event{Kind: locker.EventAbandoned}, `level=DEBUG`},
		{locker.Event{Kind: locker.EventRemoved}, `level=DEBUG`},
	} {
		var out bytes.Buffer
		h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
		tc.event.Backend, tc.event.Time = "mem", time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
		observe.Slog(h, observe.SlogSlow(time.Hour, time.Minute)).Observe(t.Context(), tc.event)
		rest := out.String()
		for want := range strings.SplitSeq("time=2020-01-02T03:04:05.000Z | "+tc.want, " | ") {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%v: the log is %q, want in it %q", tc.event.Kind, out.String(), want)
			}
			rest = after
		}
	}
}

// contextual is a handler that wants only warnings, and notes a value of the context.
type contextual struct {
	slog.Handler
	seen []any
}

type traceKey struct{}

func (c *contextual) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (c *contextual) Handle(ctx context.Context, _ slog.Record) error {
	c.seen = append(c.seen, ctx.Value(traceKey{}))
	return nil
}

func TestSlogAsksTheHandlerAndTheLevels(t *testing.T) {
	h := &contextual{}
	o := observe.Slog(h, observe.SlogLevels(func(e locker.Event) slog.Level {
		if e.Name == "loud" {
			return slog.LevelError
		}
		return slog.LevelInfo
	}))
	ctx := context.WithValue(t.Context(), traceKey{}, "trace")
	o.Observe(ctx, locker.Event{Kind: locker.EventLost, Name: "quiet"})
	o.Observe(ctx, locker.Event{Kind: locker.EventGranted, Name: "loud"})
	if len(h.seen) != 1 || h.seen[0] != "trace" {
		t.Errorf("the records have %v of their context, want one record with the trace", h.seen)
	}
}
