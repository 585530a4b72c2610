package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
	"github.com/fencedlock/locker/membackend"
)

// furtherSabotages exist so that each case is seen to fail; see TestEveryCaseCanFail.
func furtherSabotages() []sabotage {
	toy := func(f flaws) conformance.Harness { return toyHarness(f, plain) }
	mem := memHarness
	// A waiter that polls has no place in the service's queue.
	polling := func(newest bool) conformance.Harness {
		h := mem(inTurn(newest))
		setup := h.Setup
		h.Setup = func(t conformance.T, h *conformance.Harness) {
			setup(t, h)
			h.Waiters = nil
		}
		return h
	}
	return []sabotage{
		{bug: "no background renewal", harness: mem(onOptions(func(r *locker.Request) { r.NoRenewal = true })), named: "C26", others: "B18 B24 C26.1 C28 C32.1 D35 D39a.1 D39a.3 D39b D39b.1 F47 F47.1 J64.1 J73 J73.1 J74 J74.2 J75.1 P4 P14"},
		{bug: "longest hold is ignored", harness: mem(onOptions(func(r *locker.Request) { r.MaxHold = 0 })), named: "C32.1", others: "A6 A8 D39a.2 E43 F50 F51"},
		{bug: "minimum hold is ignored", harness: mem(onOptions(func(r *locker.Request) { r.MinHold = 0 })), named: "C32.2", others: "C32.3 C32.4"},
		{bug: "TTL is halved", harness: mem(onOptions(func(r *locker.Request) { r.TTL /= 2 })), named: "C31", others: "C25 C28 C30 C31.2 F48.1 S5"},
		{bug: "lease ends with Acquire's context", harness: mem(onAcquire(boundLease)), named: "B18", others: "P2", perhaps: "L3.2"},
		{bug: "first failed renewal is a loss", harness: toy(flaws{impatient: true}), named: "C28", others: "F47 F47.1 F52.2 F52.5",
			perhaps: "D39b.1"},
		{bug: "failed renewal is ignored", harness: toy(flaws{trusting: true}), named: "F48", others: "C32.3 D33.1 D39a.1 E46 F47 F47.1 F48.2 F48.4 F52.5 J74 J74.2 P4 S3"},
		{bug: "expired key on a live session", harness: toy(flaws{sessions: true, lapses: true}), named: "D39a.1", others: "D39a.3"},
		{bug: "late request after a release on a live session", harness: toy(flaws{sessions: true, forgetful: true}), named: "D39a.4", others: "D39a.5 S4"},
		{bug: "late request after a release", harness: toy(flaws{forgetful: true}), named: "D39a.5", others: "S4"},
		{bug: "late copy of a request on a live session", harness: toy(flaws{sessions: true, repeats: true}), named: "D39a.4", others: "D39a.5 S4"},
		{bug: "waiter keeps the connection", harness: mem(oneConnection), named: "G56", others: "A2 G53 L2 L3 L5 O3 P11", perhaps: "E44 G54 P2 P4 P5 P6"},
		{bug: "cause is dropped", harness: mem(onAcquire(causeless)), named: "B14", others: "B15"},
		{bug: "lease shows no deadline", harness: mem(onLease(func(l locker.Lease) locker.Lease { return timeless{l} })), named: "A1", others: "B24 C25 C26 C30 C31 C31.2 C31.3 C32 D35.1 F47 F47.1 F48.4 J74.2 J75.1", perhaps: "J72.1"},
		{bug: "release looks like a loss", harness: mem(onLease(func(l locker.Lease) locker.Lease { return neverReleased{l} })), named: "F49", others: "A10 C32.1 C32.2 C32.4 J72 J72.1 J72.2 J73.3 P8.1"},
		{bug: "released lock is refused for a moment", harness: mem(restingLock), named: "A5", others: "A4 A9.1 B11 B12.1 C27 C29 E40 E40.1 E42 E42.1 F52 J66 P8.1 P11", perhaps: "P1"},
		{bug: "closed looks like cancelled", harness: mem(onAcquire(closedAsCancelled)), named: "A10.1", others: "A10"},
		{bug: "request is sent though its context is over", harness: mem(onAcquire(askAnyway)), named: "B15"},
		{bug: "last come, first served", harness: polling(true), named: "B22.1", others: "B11 B12.1 B13 B21 B22.3 B22.4 B24a J64.1 J65 J68 J75.4 L2 P2 P7", perhaps: "P4 P5 P11"},
		{bug: "first come, first served, dead or alive", harness: polling(false), named: "B22.5", others: "B11 B12.1 B13 B21 B22.2 B22.3 J64.1 J65 J68 P2 P7 P11 S1", perhaps: "L2 P4 P5"},
		{bug: "broken connection is used once more", harness: toy(flaws{staleConn: true}), named: "F52", others: "E42.3"},
		{bug: "connection that is silent stays in the pool", harness: toy(flaws{keepsSilent: true}), named: "F52.1", others: "F52.2 F52.3 F52.4 F52.5 F52.6"},
		{bug: "each try takes another connection that was idle", harness: toy(flaws{keepsIdle: true}), named: "F52.1", others: "F52.2 F52.4 F52.5 F52.6"},
		{bug: "connections that were idle stay below a new one", harness: toy(flaws{hidesIdle: true}), named: "F52.1"},
		{bug: "waiter stays on a connection that the network has forgotten", harness: toy(flaws{waitsOn: true}), named: "F52.3"},
		{bug: "release is sent on the connection of the acquisition", harness: toy(flaws{releasesOn: true}), named: "F52.4", others: "F52.2 F52.6"},
		{bug: "a time limit of a renewal by hand looks like the caller's", harness: toyHarness(flaws{}, onLease(func(l locker.Lease) locker.Lease { return hurried{l} })), named: "F52.5"},
		{bug: "Close gives up a removal without an answer, and says nothing", harness: toy(flaws{closesBriefly: true}), named: "F52.6"},
		{bug: "a time limit of the backend's own looks like the caller's", harness: mem(onAcquire(limitLikeTheCallers)), named: "B11"},
		{bug: "a call without a deadline waits for a service without an answer for ever", harness: mem(onAcquire(patient)), named: "B11"},
		{bug: "contexts are ignored though the driver declares that it obeys them", harness: toy(flaws{deaf: true}), named: "B11.1"},
		{bug: "current token is remembered", harness: mem(remembering), named: "E43.1", others: "E43.2 H58 P1 P8.1"},
		{bug: "promises change", harness: mem(fickle), named: "M2", others: "H63"},
		{bug: "sloppy URLs", harness: sloppyHarness(), named: "H61", others: "H62 H63"},
		{bug: "TTL is accepted and forgotten", harness: toy(flaws{noTTL: true, acceptTTL: true}), named: "C31.1"},
		{bug: "renewal looks, and then sets the key", harness: toy(flaws{renewsInSteps: true}), named: "C29.3"},
		{bug: "release looks, and then deletes the key", harness: toy(flaws{releasesInSteps: true}), named: "D35.1"},
		{bug: "break looks, and then takes the key away", harness: toy(flaws{breaksInSteps: true}), named: "J73.2"},
		{bug: "a request for each renewal, and one stamp for all", harness: toy(flaws{lastStamp: true}), named: "F48.4"},
		{bug: "TTL is a number of 31 bits", harness: mutated("ttl-in-31-bits-of-ms"), named: "C31.2"},
		{bug: "TTL is a number of 32 bits", harness: mutated("ttl-in-32-bits-of-us"), named: "C31.2"},
		{bug: "batch of renewals is cut", harness: mutated("batch-cut-at-64"), named: "C26.1"},
		{bug: "deadline counts from the notice of the grant", harness: mutated("base-from-notice"), named: "F48.2"},
		{bug: "current token of a dead holder", harness: mutated("current-of-the-expired"), named: "E43.2"},
		{bug: "current token after a removal", harness: mutated("current-of-the-removed"), named: "E43.3"},
		{bug: "hash in the place of the name", harness: mutated("key-is-crc32"), named: "H58.1"},
		{bug: "SHA-256 cut to its first 32 bits in the place of the name", harness: toy(flaws{digest: sha256Cut}), named: "H58.1"},
		{bug: "MD5 cut to its last 32 bits in the place of the name", harness: toy(flaws{digest: md5Cut}), named: "H58.1"},
		{bug: "current token of a name in lower case", harness: mem(onToken(lowerToken)), named: "H58"},
		{bug: "a longer TTL is attached to a shorter one's session", harness: toy(flaws{shortestTTL: true}), named: "C31.3"},
		{bug: "TTL is cut to whole seconds", harness: halfSeconds("ttl-in-whole-seconds"), named: "C31"},
		{bug: "release on a service that is down is nil", harness: mutated("refused-release-is-nil"), named: "A6.1"},
		{bug: "long queue is served from the wrong end", harness: mutated("lifo-beyond-32"), named: "B21"},
		{bug: "goroutine for each acquisition, until Close", harness: mem(leakUntilClose), named: "G57"},
		{bug: "silence is taken for death", harness: toy(flaws{noTTL: true, hasty: true}), named: "D38.1"},
	}
}

// hurried reports the end of a time limit of a renewal as the end of a context.
type hurried struct{ locker.Lease }

func (l hurried) Renew(ctx context.Context) error {
	err := l.Lease.Renew(ctx)
	if err != nil && ctx.Err() == nil && l.Err() == nil {
		err = &locker.Error{Op: "renew", Backend: "toy", Name: l.Name(), Err: context.DeadlineExceeded}
	}
	return err
}

// mutated is the harness of the reference service with one of its mutations.
func mutated(name string) conformance.Harness {
	mutations := reference.Mutations()
	i := slices.IndexFunc(mutations, func(m reference.Mutation) bool { return m.Name == name })
	return reference.Harness(&mutations[i], mutations[i].Dialect)
}

// halfSeconds is mutated with a TTL that whole seconds prolong, on a machine that may be late by more
// than that.
func halfSeconds(name string) conformance.Harness {
	h := mutated(name)
	setup := h.Setup
	h.Setup = func(t conformance.T, h *conformance.Harness) {
		setup(t, h)
		h.TTL, h.Slack = 500*time.Millisecond, 5*time.Second
	}
	return h
}

// onOptions makes a decorator that changes the request.
func onOptions(change func(*locker.Request)) decorator {
	return onAcquire(func(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
		if _, err := locker.Resolve(name, opts...); err != nil {
			return l.Acquire(ctx, name, opts...)
		}
		return l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], locker.Option(change))...)
	})
}

// boundLease releases a lease when the context of its Acquire ends, unless that context has a
// deadline, as nearly all contexts of the suite have.
func boundLease(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if _, limited := ctx.Deadline(); err == nil && !limited {
		context.AfterFunc(ctx, func() { _ = lease.Release(ctx) })
	}
	return lease, err
}

type timeless struct{ locker.Lease }

func (l timeless) Deadline() time.Time { return time.Time{} }

type neverReleased struct{ locker.Lease }

func (l neverReleased) Err() error {
	if err := l.Lease.Err(); err != nil {
		return &locker.Error{Op: "lease", Name: l.Name(), Err: locker.ErrLost}
	}
	return nil
}

// restingLock refuses a lock to the Locker that has just released it.
func restingLock() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		var mu sync.Mutex
		released := make(map[string]time.Time)
		return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			req, err := locker.Resolve(name, opts...)
			mu.Lock()
			at, ok := released[name]
			mu.Unlock()
			if err == nil && req.NoWait && ok && time.Since(at) < time.Millisecond {
				return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeld}
			}
			lease, err := l.Acquire(ctx, name, opts...)
			if err != nil {
				return nil, err
			}
			return onRelease{lease, func() {
				mu.Lock()
				defer mu.Unlock()
				released[name] = time.Now()
			}}, nil
		}}
	}
}

type onRelease struct {
	locker.Lease
	then func()
}

func (l onRelease) Release(ctx context.Context) error {
	defer l.then()
	return l.Lease.Release(ctx)
}

func closedAsCancelled(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if errors.Is(err, locker.ErrClosed) {
		err = &locker.Error{Op: "acquire", Name: name, Err: context.Canceled}
	}
	return lease, err
}

func askAnyway(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	if ctx.Err() != nil {
		if lease, err := l.Acquire(context.WithoutCancel(ctx), name, locker.NoWait()); err == nil {
			_ = lease.Release(ctx)
		}
	}
	return l.Acquire(ctx, name, opts...)
}

func causeless(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if errors.Is(err, context.Canceled) {
		err = &locker.Error{Op: "acquire", Name: name, Err: context.Canceled}
	}
	return lease, err
}

// rememberedToken answers with the first token that it has seen.
type rememberedToken struct {
	forwards
	mu    sync.Mutex
	first locker.Token
}

func remembering() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker { return &rememberedToken{forwards: forwards{l}} }
}

func (l *rememberedToken) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	token, err := locker.CurrentToken(ctx, l.Locker, name, slot)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 {
		l.first = token
	}
	return l.first, err
}

// fickle promises something else each time.
func fickle() func(locker.Locker) locker.Locker {
	n := 0
	return func(l locker.Locker) locker.Locker {
		return claimant{forwards{l}, func(g *locker.Guarantees) {
			n++
			g.RoundTrips = n
		}}
	}
}

func init() { locker.Register("sloppy", openSloppy) }

// openSloppy ignores parameters, shows the URL in an error, and promises less than it keeps.
func openSloppy(_ context.Context, u *url.URL) (locker.Locker, error) {
	if u.User != nil {
		return nil, fmt.Errorf("can't open %s", u)
	}
	return claimant{forwards{membackend.New()}, func(g *locker.Guarantees) { g.Cost = locker.CostHigh }}, nil
}

func sloppyHarness() conformance.Harness {
	h := memHarness(plain)
	setup := h.Setup
	h.Setup = func(t conformance.T, h *conformance.Harness) {
		setup(t, h)
		h.URL = "sloppy://"
		h.BadURLs = map[string]string{"password": "sloppy://user:sesame@"}
	}
	return h
}

// limitLikeTheCallers reports the end of a time limit of the backend's own as the end of a context.
func limitLikeTheCallers(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	lease, err := l.Acquire(ctx, name, opts...)
	if ctx.Err() == nil && errors.Is(err, locker.ErrNoAnswer) {
		err = &locker.Error{Op: "acquire", Backend: "mem", Name: name, Err: fmt.Errorf("dial: %w", context.DeadlineExceeded)}
	}
	return lease, err
}

// patient asks again until there is an answer.
func patient(l locker.Locker, ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
	for {
		lease, err := l.Acquire(ctx, name, opts...)
		if ctx.Err() != nil || !errors.Is(err, locker.ErrNoAnswer) {
			return lease, err
		}
	}
}
