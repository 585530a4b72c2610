package conformance_test

import (
	"context"
	"iter"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// Lockers that show something of other locks, or less than there is.

// unendingToken reads the current token though nobody waits for it any more.
func unendingToken() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker { return unendingReader{forwards{l}} }
}

type unendingReader struct{ forwards }

func (r unendingReader) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	return locker.CurrentToken(context.WithoutCancel(ctx), r.Locker, name, slot)
}

func inMilliseconds(s *locker.Status) {
	if s.Holder != nil {
		s.Holder.ExpiresIn *= 1000
	}
}

// onNeighbours makes a decorator that changes what Inspect shows, by the locks of longer names.
func onNeighbours(change func(s *locker.Status, longer []locker.Status)) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker {
			return looker{forwards: forwards{l}, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
				s, err := locker.Inspect(ctx, l, name, look)
				if err != nil {
					return s, err
				}
				var longer []locker.Status
				for _, other := range statuses(ctx, l, name, look.Waiters) {
					if other.Name != name && other.Holder != nil {
						longer = append(longer, other)
					}
				}
				change(&s, longer)
				return s, nil
			}}
		}
	}
}

func byRange() func(locker.Locker) locker.Locker {
	return onNeighbours(func(s *locker.Status, longer []locker.Status) {
		if s.Holder == nil && len(longer) > 0 {
			s.Holder = longer[0].Holder
		}
	})()
}

func neighboursWait() func(locker.Locker) locker.Locker {
	return onNeighbours(func(s *locker.Status, longer []locker.Status) {
		if s.Holder != nil {
			s.Waiting += len(longer)
		}
	})()
}

func firstPage(ctx context.Context, l locker.Locker, prefix string, waiters int) []locker.Status {
	all := statuses(ctx, l, prefix, waiters)
	return all[:min(len(all), 290)] // case J68 has fewer
}

// forgetsPrefix is the harness of a backend with prefixes, which it forgets in one call.
func forgetsPrefix(call string) conformance.Harness {
	h := memHarness(plain)
	setup := h.Setup
	h.Setup = func(t conformance.T, h *conformance.Harness) {
		setup(t, h)
		prefixed, bare := h.Prefixed, h.Open(t)
		t.Cleanup(func() { _ = bare.Close() })
		h.Prefixed = func(t conformance.T, prefix string) locker.Locker {
			l := forwards{prefixed(t, prefix)}
			switch call {
			case "Inspect":
				return looker{forwards: l, inspect: func(ctx context.Context, name string, look locker.Look) (locker.Status, error) {
					return locker.Inspect(ctx, bare, name, look)
				}}
			case "List":
				return looker{forwards: l, list: func(ctx context.Context, prefix string, waiters int) iter.Seq2[locker.Status, error] {
					return locker.List(ctx, bare, prefix, waiters)
				}}
			}
			return breaker{l, func(
				ctx context.Context, _ locker.Locker, name string, token locker.Token, b locker.Breach,
			) (locker.Effect, error) {
				return locker.Break(ctx, bare, name, token, b)
			}}
		}
	}
	return h
}
