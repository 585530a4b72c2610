package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// expect compares what a call has returned with what it must: nil, or an error that matches.
func expect(what string, got, want error) error {
	switch {
	case want == nil && got == nil, want != nil && errors.Is(got, want):
		return nil
	case got == nil:
		return fmt.Errorf("%s = nil, want: %w", what, want)
	case want == nil:
		return fmt.Errorf("%s = %w, want nil", what, got)
	}
	return fmt.Errorf("%s = %w, want: %w", what, got, want)
}

// steps makes calls for one resource, and compares each result with the expected one. err is the
// first difference.
type steps struct {
	ctx      context.Context
	store    Store
	resource string
	err      error
}

func (h *Harness) steps(ctx context.Context, name string) *steps {
	s := &steps{ctx: ctx, resource: resource(name)}
	s.store, s.err = h.Open()
	return s
}

func (s *steps) claim(token locker.Token, want error) {
	if s.err == nil {
		s.err = expect(fmt.Sprintf("Claim(%d)", token), s.store.Claim(s.ctx, s.resource, token), want)
	}
}

func (s *steps) write(token locker.Token, value string, want error) {
	if s.err == nil {
		s.err = expect(fmt.Sprintf("Write(%d)", token), s.store.Write(s.ctx, s.resource, token, value), want)
	}
}

func (s *steps) read(want string) {
	if s.err != nil {
		return
	}
	switch got, err := s.store.Read(s.ctx, s.resource); {
	case err != nil:
		s.err = fmt.Errorf("read: %w", err)
	case got != want:
		s.err = fmt.Errorf("the value is %q, want %q", got, want)
	}
}

func badArguments(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "arguments")
	for _, token := range []locker.Token{0, -1, math.MinInt64} {
		if s.err != nil {
			return s.err
		}
		err := s.store.Claim(ctx, s.resource, token)
		switch {
		case err == nil:
			return fmt.Errorf("Claim(%d) = nil, want an error: no lease has that token", token)
		case errors.Is(err, fence.ErrStale):
			return fmt.Errorf("Claim(%d) = %w, want an error of its own: no lease has that token", token, err)
		}
		if err := s.store.Write(ctx, s.resource, token, "x"); err == nil {
			return fmt.Errorf("Write(%d) = nil, want an error", token)
		}
	}
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", locker.MaxName+1)} {
		if err := s.store.Claim(ctx, name, 1); !errors.Is(err, locker.ErrName) {
			return fmt.Errorf("got %w from Claim of the resource %.20q, want ErrName", err, name)
		}
	}
	s.read("")
	s.claim(1, nil)
	return s.err
}

func markRises(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "mark")
	s.claim(5, nil)
	s.claim(5, nil)
	s.claim(4, fence.ErrStale)
	s.claim(7, nil)
	s.claim(6, fence.ErrStale)
	s.claim(5, fence.ErrStale)
	s.claim(7, nil)
	s.claim(100, nil) // as text it is smaller
	s.claim(99, fence.ErrStale)
	return s.err
}

func staleWrite(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "stale")
	s.claim(5, nil)
	s.write(5, "first", nil)
	s.write(5, "second", nil)
	s.read("second")
	s.claim(6, nil)
	s.write(5, "late", fence.ErrStale)
	s.read("second")
	s.write(6, "third", nil)
	s.read("third")
	return s.err
}

func writeClaims(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "write")
	s.write(5, "first", nil) // without a claim before
	s.write(7, "second", nil)
	s.claim(6, fence.ErrStale)
	s.write(6, "late", fence.ErrStale)
	s.read("second")
	return s.err
}

func exact(ctx context.Context, h *Harness) error {
	for _, high := range []locker.Token{1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<62 + 1, math.MaxInt64} {
		s := h.steps(ctx, "exact")
		s.claim(high-1, nil)
		s.write(high, "high", nil)
		s.claim(high-1, fence.ErrStale)
		s.write(high-1, "low", fence.ErrStale)
		s.claim(high, nil)
		s.read("high")
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

func apart(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "apart")
	var names []string
	for _, end := range []string{"a", "A", "a/b", "a ", "a{b}", "a%7Bb%7D", "ä", "a\u0308", "'; --", "*", "a:fence", "a\\", strings.Repeat("a", 40)} {
		names = append(names, s.resource+end)
	}
	long := s.resource + strings.Repeat("a", locker.MaxName-len(s.resource)-1)
	names = append(names, long+"1", long+"2", "1"+long, "2"+long) // they differ at an end, which may be cut
	for i, name := range names {                                  // the tokens fall, so that a claim is refused if two names are one resource
		s.resource = name
		s.write(locker.Token(len(names)-i), strconv.Itoa(i), nil)
	}
	for i, name := range names {
		s.resource = name
		s.read(strconv.Itoa(i))
	}
	return s.err
}

func seenByAll(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "all")
	if s.err != nil {
		return s.err
	}
	mine := s.store
	other, err := h.Open()
	if err != nil {
		return err
	}
	s.write(5, "mine", nil)
	s.store = other
	s.read("mine")
	s.claim(4, fence.ErrStale)
	s.write(6, "other's", nil)
	s.store = mine
	s.claim(5, fence.ErrStale) // a Store that remembers its own last claim doesn't see the other's
	s.write(5, "late", fence.ErrStale)
	s.read("other's")
	return s.err
}

func cancelled(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "context")
	over, cancel := context.WithCancel(ctx)
	cancel()
	if s.err == nil {
		// A storage that doesn't wait may accept the claim all the same.
		if err := s.store.Claim(over, s.resource, 9); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("got %w from Claim with a context that is over, want context.Canceled", err)
		}
	}
	s.claim(9, nil)
	return s.err
}

func crashed(ctx context.Context, h *Harness) error {
	s := h.steps(ctx, "crash")
	s.write(5, "kept", nil)
	s.claim(7, nil)
	if s.err != nil {
		return s.err
	}
	if err := h.Crash(); err != nil {
		return err
	}
	if s.store, s.err = h.Open(); s.err != nil {
		return s.err
	}
	s.read("kept")
	s.claim(6, fence.ErrStale)
	s.write(6, "late", fence.ErrStale)
	s.write(7, "next", nil)
	s.read("next")
	return s.err
}
