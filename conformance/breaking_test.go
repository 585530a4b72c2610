package conformance_test

import (
	"context"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// breakSabotages are mistakes in taking a lock away.
func breakSabotages() []sabotage {
	toy := func(f flaws) conformance.Harness { return toyHarness(f, plain) }
	return []sabotage{
		{bug: "Break without the token compare", harness: toy(flaws{breakAny: true}), named: "J73", others: "H59 J73.2 J75 J77 P13"},
		{bug: "Break deletes the key, whatever is asked", harness: toy(flaws{breakDeletes: true}), named: "J72", others: "H59 J72.1 J73.3 J74 J75.1 J76 J77 P8.1 P13 P14"},
		{bug: "a release doesn't recognise the owner of a marked key", harness: toy(flaws{markHides: true}), named: "J72.1", others: "J76 J76.1"},
		{bug: "a mark ends the time to live", harness: toy(flaws{breakForever: true}), named: "J74"},
		{bug: "Break at once marks the key only", harness: toy(flaws{breakWaits: true}), named: "J75", others: "J75.1 J75.2"},
		{bug: "a renewal revives a broken lease", harness: toy(flaws{markRevives: true}), named: "J76", others: "H59 J72 J72.1 J73.3 J74.2 J76.1 J77 P8.1 P13 P14"},
		{bug: "a second Break takes the place of the first", harness: toy(flaws{breakReplaces: true}), named: "J76"},
		{bug: "Break at once ends all leases of the holder", harness: toy(flaws{breakOthers: true}), named: "J75.2"},
		{bug: "Break at once is refused, and it doesn't say how many leases would end", harness: memHarness(onBreak(breakRefused)), named: "J75.2"},
		{bug: "a break doesn't know for how long the lease lasts, and says that the lock is free", harness: memHarness(onBreak(breakFree)), named: "J74",
			others: "J74.1 J75.1", perhaps: "J72 J72.1 J72.2 J73.3 J74.2 J76 J77 P8.1 P13 P14"},
		{bug: "a break knows no time", harness: memHarness(onBreak(breakTimeless)), named: "J72", others: "H59 J72.1 J72.2 J73.3 J74 J74.1 J74.2 J75.1 J76 J77 P8.1 P13 P14"},
		{bug: "a break at once knows no time", harness: memHarness(onBreak(breakTimelessAtOnce)), named: "J75", others: "J75.1 J75.4 P13"},
		{bug: "Break of a service that fails is done", harness: memHarness(onBreak(doneWhenDown)), named: "J71.2"},
		{bug: "Break of a service that fails is ErrNotHolder", harness: memHarness(onBreak(notHolderAtBreak)), named: "J71.2"},
		{bug: "Break of a name in lower case", harness: memHarness(onBreak(breakLower)), named: "J73.3"},
		{bug: "a mark stops the renewal of those after it", harness: toy(flaws{markStops: true}), named: "J74.2"},
		{bug: "current token after a break at once", harness: memHarness(brokenStays), named: "J75.3"},
		{bug: "a break at once drops all waiters but the first", harness: memHarness(dropsQueue), named: "J75.4"},
		{bug: "marks are not stored", harness: toy(flaws{marksForgot: true}), named: "J76.1"},
		{bug: "quotes are left out of a Breach", harness: memHarness(onBreak(unquoted)), named: "J72"},
		{bug: "a break is not shown", harness: memHarness(onStatus(withoutBreach)), named: "J74.1"},
		{bug: "a break ignores its context", harness: memHarness(onBreak(breakAnyway)), named: "J73.1", others: "J71.1"},
		{bug: "Break takes the last part of a name for the name", harness: memHarness(onBreak(breakLastPart)), named: "J77", others: "H59 J73.3"},
		{bug: "a marked lock is free for the first that asks", harness: memHarness(marksFree), named: "J74.1"},
		{bug: "a mark is the next holder's as well, if that has waited", harness: toy(flaws{markOutlives: true}), named: "J72.1"},
		{bug: "a holder that has waited isn't marked", harness: toy(flaws{waitedStays: true}), named: "J72.1"},
		{bug: "a break goes on until the service answers", harness: memHarness(onBreak(breakAtLast)), named: "J71.1"},
		{bug: "what is left of a marked lease is in ms, and shown in s", harness: memHarness(onBreak(withinTimes1000)), named: "J74"},
		{bug: "other leases that end are not counted", harness: toyHarness(flaws{breakOthers: true}, onBreak(refusedAlone)), named: "J75.2"},
		{bug: "other leases that don't end are counted", harness: memHarness(onBreak(countsAnother)), named: "J75.2"},
	}
}

// breaker is a Locker whose Break is replaced.
type breaker struct {
	forwards
	do func(ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach) (locker.Effect, error)
}

func (b breaker) Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	return b.do(ctx, b.Locker, name, token, breach)
}

func onBreak(
	do func(ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach) (locker.Effect, error),
) decorator {
	return func() func(locker.Locker) locker.Locker {
		return func(l locker.Locker) locker.Locker { return breaker{forwards{l}, do} }
	}
}

func breakAnyway(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	return locker.Break(context.WithoutCancel(ctx), l, name, token, b)
}

func unquoted(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	b.Reason = strings.ReplaceAll(b.Reason, "'", "")
	return locker.Break(ctx, l, name, token, b)
}

func breakLastPart(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	return locker.Break(ctx, l, name[strings.LastIndexByte(name, '/')+1:], token, b)
}

// breakRefused refuses what would end other leases, as if there were some.
func breakRefused(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	if b.AtOnce && !b.WithOthers {
		return locker.Effect{}, locker.ErrOption
	}
	return locker.Break(ctx, l, name, token, b)
}

func breakFree(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	effect.Within = 0
	return effect, err
}

func breakTimeless(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	if effect.Within > 0 {
		effect.Within = -1
	}
	return effect, err
}

func breakTimelessAtOnce(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	if err == nil && b.AtOnce {
		effect.Within = -1
	}
	return effect, err
}

func withoutBreach(s *locker.Status) {
	if s.Holder != nil {
		s.Holder.Broken = nil
	}
}

// marksFree gives a marked lock to the first that asks for it.
func marksFree() func(locker.Locker) locker.Locker {
	return func(l locker.Locker) locker.Locker {
		return acquirer{forwards{l}, func(ctx context.Context, name string, opts []locker.Option) (locker.Lease, error) {
			if _, err := locker.Resolve(name, opts...); err != nil {
				return l.Acquire(ctx, name, opts...)
			}
			if s, err := locker.Inspect(ctx, l, name, locker.Look{}); err == nil && s.Holder != nil && s.Holder.Broken != nil && s.Waiting == 0 {
				_, _ = locker.Break(ctx, l, name, s.Holder.Token, locker.Breach{AtOnce: true})
			}
			return l.Acquire(ctx, name, opts...)
		}}
	}
}

// breakAtLast has no time limit of its own.
func breakAtLast(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	for {
		effect, err := locker.Break(ctx, l, name, token, b)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "no answer") {
			return effect, err
		}
	}
}

func withinTimes1000(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := locker.Break(ctx, l, name, token, b)
	effect.Within *= 1000
	return effect, err
}

// refusedAlone takes nothing away at once unless others may end as well.
func refusedAlone(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	if b.AtOnce && !b.WithOthers {
		return locker.Effect{}, &locker.Error{Op: "break", Name: name, Err: locker.ErrOption}
	}
	return locker.Break(ctx, l, name, token, b)
}

func countsAnother(
	ctx context.Context, l locker.Locker, name string, token locker.Token, b locker.Breach,
) (locker.Effect, error) {
	effect, err := refusedAlone(ctx, l, name, token, b)
	if err == nil && b.AtOnce {
		effect.Others = 1
	}
	return effect, err
}
