package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/top"
)

// topBreaker takes locks away for the screen.
type topBreaker struct {
	l     locker.Locker
	audit *auditLog
}

// question says who has the lock, as break does.
func (b topBreaker) question(ctx context.Context, row top.Row, atOnce bool) (string, error) {
	if b.l.Guarantees().Break < locker.BreakSeenAtRenewal {
		return "", fmt.Errorf("a lock can't be taken away from its holder on %s", b.l.Guarantees().Backend)
	}
	v, err := b.victim(ctx, row)
	if err != nil {
		return "", plainError(err)
	}
	return v.question(b.l.Guarantees(), locker.Breach{AtOnce: atOnce}), nil
}

// take looks once more: if the lock has passed on since it was shown, nothing changes.
func (b topBreaker) take(ctx context.Context, row top.Row, atOnce bool, reason string) (string, error) {
	v, err := b.victim(ctx, row)
	if err != nil {
		return "", plainError(err)
	}
	breach, err := locker.ResolveBreach(v.name, v.token, locker.Breach{By: operator(), Reason: reason, AtOnce: atOnce, Slot: v.slot})
	if err != nil {
		return "", plainError(err)
	}
	effect, err := v.take(ctx, b.l, breach, b.audit)
	if err != nil {
		return "", plainError(err)
	}
	return taken(effect, atOnce), nil
}

// victim is the lease that a row shows.
func (b topBreaker) victim(ctx context.Context, row top.Row) (victim, error) {
	token, err := strconv.ParseInt(row.Token, 10, 64)
	if err != nil {
		return victim{}, errors.New("nobody holds it, or the service doesn't show the holder's token")
	}
	return findVictim(ctx, b.l, row.Name, row.Slot, locker.Token(token))
}
