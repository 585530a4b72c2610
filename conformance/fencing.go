package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

var fencingCases = []Case{
	{ID: "E43", Name: "token-is-fixed", Run: tokenFixed, Needs: locker.FencingUntilDataLoss,
		Why: "a token that is read again later may be the successor's, and then the stale holder " +
			"passes the fence"},
	{ID: "E43.1", Name: "current-token-is-the-holders", Run: currentToken,
		Needs: locker.FencingUntilDataLoss,
		Why: "a service that is asked whether a token is current must not answer for a former " +
			"holder, nor for a waiter"},
	{ID: "E43.2", Name: "current-token-is-no-dead-holders", Run: currentTokenOfTheDead,
		Needs: all(locker.FencingUntilDataLoss, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "after an expiry a service that is asked must not name the dead holder's token, or a " +
			"stale write is accepted until there is a successor"},
	{ID: "E43.3", Name: "current-token-is-no-former-holders", Run: currentTokenOfTheFormer,
		Needs: locker.FencingUntilDataLoss, Hooks: []Hook{HookRemove},
		Why: "an operator who removes a lock wants its holder's writes refused at once"},
	{ID: "E44", Name: "tokens-are-in-order-of-the-critical-sections", Run: tokensInOrder,
		Needs: locker.FencingUntilDataLoss,
		Why: "if a holder's token is smaller than the previous holder's, the storage refuses it " +
			"though it holds the lock"},
	{ID: "E45", Name: "fence-accepts-tokens-exactly", Run: fenceExact,
		Needs: locker.FencingUntilDataLoss,
		Why: "the cases that judge tokens use a fence of the suite's: if it rounded them, or checked " +
			"and wrote in two steps, a stale write would pass there"},
	{ID: "E46", Name: "paused-holder-is-fenced", Run: pausedHolder,
		Needs: all(locker.FencingUntilDataLoss, locker.RequireTTL), Hooks: []Hook{HookProcess},
		Why: "this is the purpose of it all: a holder that resumes after the end of its lease " +
			"can't destroy what its successor wrote"},
}

func tokenFixed(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithMaxHold(4*h.short()))...)
	token := lease.Token()
	if err := step.Renew(t, lease); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.Pass(t, 2*h.short()) // so that it is renewed in the background as well
	if now := lease.Token(); now != token {
		t.Errorf("after renewal Token = %v, want %v still", now, token)
	}
	waiter := step.StartAcquire(t, other, name)
	step.LostWithin(t, 4*h.short()+h.Slack, lease)
	next := waiter.Granted(t, h.RemovalLimit())
	step.WantRising(t, token, next.Token())
	if now := lease.Token(); now != token {
		t.Errorf("the stale lease's Token = %v since the successor has %v, want %v still", now, next.Token(), token)
	}
	if now := next.Token(); now <= token {
		t.Errorf("the successor's Token = %v, want it above %v still", now, token)
	}
	step.Release(t, next)
}

// currentToken passes where the service doesn't know the tokens: no guarantee promises that.
func currentToken(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	want := func(want locker.Token, when string) {
		t.Helper()
		if got, err := locker.CurrentToken(t.Context(), other, name, 0); got != want || err != nil {
			t.Errorf("%s, Current = %v, %v, want %v", when, got, err, want)
		}
	}
	if _, err := locker.CurrentToken(t.Context(), l, name, 0); errors.Is(err, errors.ErrUnsupported) {
		t.Logf("CurrentToken = %v", err)
		return
	}
	want(0, "of a lock that nobody has had")
	lease := step.Acquire(t, l, name)
	want(lease.Token(), "while it is held")
	waiter := step.StartAcquire(t, h.OpenLocker(t), name)
	h.WaitQueued(t, name, 1)
	want(lease.Token(), "while another one waits")
	step.Release(t, lease)
	next := waiter.Granted(t, h.HandOffLimit())
	want(next.Token(), "of the next holder")
	step.Release(t, next)
	want(0, "after the release")
}

// currentTokenOfTheDead asks when nobody else has asked for the lock since it expired.
func currentTokenOfTheDead(t T, h *Harness) {
	l, link := h.OpenLinked(t)
	other, name := h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	link.Cut()
	step.LostWithin(t, h.ExpiryLimit(), lease)
	wantNoToken(t, other, name, h.ExpiryLimit())
}

func currentTokenOfTheFormer(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.Acquire(t, l, name)
	h.Remove(t, name)
	wantNoToken(t, other, name, h.Slack)
}

// wantNoToken fails the case unless the service says within d that nobody has the lock, or doesn't
// know the tokens.
func wantNoToken(t T, l locker.Locker, name string, d time.Duration) {
	t.Helper()
	step.Eventually(t, d, func() error {
		token, err := locker.CurrentToken(t.Context(), l, name, 0)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			t.Logf("CurrentToken = %v", err)
			return nil
		case err != nil:
			return fmt.Errorf("CurrentToken = %w", err)
		case token != 0:
			return fmt.Errorf("CurrentToken = %v, want 0: nobody has the lock", token)
		}
		return nil
	})
}

func tokensInOrder(t T, h *Harness) {
	const contenders = 16
	name := step.LockName(t)
	var mu sync.Mutex
	var tokens []locker.Token
	lockers := []locker.Locker{h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	step.Contend(t, contenders, h.rounds(1000)/contenders, func(ctx context.Context, i int) error {
		return locker.Do(ctx, lockers[i%len(lockers)], name, func(_ context.Context, lease locker.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, lease.Token())
			return nil
		})
	})
	for i := range tokens[1:] {
		if tokens[i+1] <= tokens[i] {
			t.Fatalf("critical section %d has token %v, and the one before it %v", i+1, tokens[i+1], tokens[i])
		}
	}
}

// fenceExact shows that the suite's own fence is exact, where the backend's tokens are and far above. Of
// the backend it needs two tokens that rise. A service can't be made to count up to 2^53, so what its
// driver does with such tokens is for the driver's own tests.
func fenceExact(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	old, recent := step.WantFree(t, l, name), step.WantFree(t, h.OpenLocker(t), name)
	for _, pair := range [][2]locker.Token{
		{old, recent}, {1<<53 - 1, 1 << 53}, {1 << 53, 1<<53 + 1}, {1<<53 + 1, 1<<53 + 2}, {math.MaxInt64 - 1, math.MaxInt64},
	} {
		f := new(fence)
		wantFence(t, f, pair[0], nil)
		wantFence(t, f, pair[0], nil) // a second write under one lease
		wantFence(t, f, pair[1], nil)
		wantFence(t, f, pair[0], errStale)
		after, err := recoverFence(f.record())
		if err != nil || after.value != f.value {
			t.Fatalf("after a crash the storage has %+v (%v), want %+v", after, err, f)
		}
		wantFence(t, after, pair[0], errStale)
		wantFence(t, after, pair[1], nil)
	}

	// If the check and the write were two steps, the value of a smaller token could remain.
	f := new(fence)
	var writers []func() error
	for i := range 8 {
		writers = append(writers, func() error {
			_ = f.write(recent+locker.Token(i), i)
			return nil
		})
	}
	step.Race(t, writers...)
	if f.value != 7 || f.highest != recent+7 {
		t.Errorf("after writes at the same time the storage has the value of writer %d and token %v, want 7 and %v", f.value, f.highest, recent+7)
	}
}

func wantFence(t T, f *fence, token locker.Token, want error) {
	t.Helper()
	if _, err := f.claim(token); !errors.Is(err, want) {
		t.Errorf("claim with token %v = %v, want %v", token, err, want)
	}
	if err := f.write(token, f.value+1); !errors.Is(err, want) {
		t.Errorf("write with token %v = %v, want %v", token, err, want)
	}
}

// pausedHolder suspends a holder between its read and its write. When the holder is resumed, it
// writes with the token that it then finds in its lease. The same happens to a storage without a
// fence, which must lose the successor's update: otherwise this case would prove nothing.
func pausedHolder(t T, h *Harness) {
	l, name := h.OpenLocker(t), step.LockName(t)
	p := h.Process(t)
	fenced, bare := new(fence), 0
	read := func(token locker.Token) (int, int) {
		n, err := fenced.claim(token)
		if err != nil {
			t.Fatalf("claim of the holder = %v, want nil", err)
		}
		return n, bare
	}

	token := process.MustDo(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL}).Token
	staleFenced, staleBare := read(token)
	p.Stop()
	successor := step.StartAcquire(t, l, name).Granted(t, h.ExpiryLimit())
	n, m := read(successor.Token())
	if err := fenced.write(successor.Token(), n+1); err != nil {
		t.Fatalf("write of the holder = %v, want nil", err)
	}
	bare = m + 1
	step.Release(t, successor)

	p.Continue()
	look := process.Do(t, p, process.Command{Verb: process.Look, Name: name})
	if !look.Lost {
		t.Errorf("the first look at the lease after waking: Err = %q, want ErrLost", look.Error)
	}
	if err := fenced.write(look.Token, staleFenced+1); !errors.Is(err, errStale) {
		t.Errorf("the stale holder's write with token %v = %v, want it refused: its successor had %v", look.Token, err, successor.Token())
	}
	bare = staleBare + 1

	// The successor has one acknowledged update in each storage. Without the fence there is a
	// second one, the stale holder's.
	if fenced.value != 1 {
		t.Errorf("with the fence the value is %d, want 1", fenced.value)
	}
	if bare != 1 {
		t.Errorf("without the fence the value is %d after two acknowledged updates: this case should lose one", bare)
	}
}
