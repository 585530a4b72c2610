package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// victim is the lease that an operator wants to take a lock away from, as the service showed it:
// what break, top and ui ask about, and the only one that they end.
type victim struct {
	row   statusRow
	name  string
	slot  int // of a permit; 0: it is the lock called name
	token locker.Token
}

// findVictim returns the lease with this token, if it holds the lock; 0 stands for the one that does.
func findVictim(ctx context.Context, l locker.Locker, name string, slot int, token locker.Token) (victim, error) {
	s, err := locker.Inspect(ctx, l, name, locker.Look{Slot: slot})
	if err != nil {
		return victim{}, breakFailure(err)
	}
	v := victim{row: rowOf(l.Guarantees().Backend, s, time.Now()), name: name, slot: slot, token: token}
	switch {
	case s.Holder == nil:
		return v, nothingTaken("nobody holds " + v.row.title())
	case token != 0 && s.Holder.Token != 0 && s.Holder.Token != token:
		return v, nothingTaken(fmt.Sprintf("%s is held with the token %d, and not with %d", v.row.title(), s.Holder.Token, token))
	case token == 0 && s.Holder.Token == 0:
		return v, &exitError{code: exitUsage, err: errors.New("the service doesn't show the holder's token (on Postgres it does after the holder's first renewal): --token is required")}
	case token == 0:
		v.token = s.Holder.Token
	}
	return v, nil
}

// question says who has the lock and what b will do, and asks.
func (v victim) question(g locker.Guarantees, b locker.Breach) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s is held by %s", v.row.title(), v.row.Holder.who())
	if v.row.held() >= 0 {
		text.WriteString(", for " + v.row.heldText())
	}
	switch n := v.row.Waiting; {
	case n == 1:
		text.WriteString("; 1 waits")
	case n >= 0:
		fmt.Fprintf(&text, "; %d wait", n)
	}
	text.WriteString(".\n")
	if b.AtOnce {
		text.WriteString("The lock passes on at once. There may be two holders for a while.\n")
		if b.WithOthers {
			text.WriteString("If other leases are on the same connection to the service, they end as well, and their locks pass on, too.\n")
		}
	} else {
		fmt.Fprintf(&text, "The holder finds its lease lost (%v), and the next one gets the lock when it has released it, or when the TTL is over.\n", g.Break)
	}
	fmt.Fprintf(&text, "A storage accepts the token %d until a larger one has claimed there.\nTake it away?", v.token)
	return text.String()
}

// take takes the lock away from v, from no other lease, and writes that to the audit. The time of both is now,
// however long somebody has thought about the question.
func (v victim) take(ctx context.Context, l locker.Locker, b locker.Breach, to *auditLog) (locker.Effect, error) {
	b.Slot, b.At = v.slot, time.Now().Truncate(time.Millisecond).UTC()
	effect, err := locker.Break(ctx, l, v.name, v.token, b)
	unwritten := to.write(v.audit(l, b, effect, err))
	switch {
	case err != nil && unwritten != nil:
		failure := breakFailure(err)
		failure.err = fmt.Errorf("%w; the audit could not be written: %w", failure.err, unwritten)
		return effect, failure
	case err != nil:
		return effect, breakFailure(err)
	case unwritten != nil:
		return effect, &exitError{code: exitService, err: fmt.Errorf("the lease is taken away, and the audit could not be written: %w", unwritten)}
	}
	return effect, nil
}

// taken says what take has done.
func taken(effect locker.Effect, atOnce bool) string {
	switch {
	case atOnce:
		return "taken away: the lock has passed on"
	case effect.Within > 0:
		return "marked: the lock is free for others in " + short(max(effect.Within, time.Millisecond)) + " at the latest"
	case effect.Within == 0:
		return "marked: the lock is free already"
	}
	return "marked: the lock is free for others when its holder has released it"
}

// nothingTaken ends a break without a change.
func nothingTaken(why string) error {
	return &exitError{code: exitChecked, err: errors.New(why)}
}

// breakFailure gives an error of a look or a break its code: exitChecked says that nothing has
// changed, because the lease doesn't hold the lock any more.
func breakFailure(err error) *exitError {
	if errors.Is(err, locker.ErrNotHolder) {
		return &exitError{code: exitChecked, err: err}
	}
	return lockFailure(err)
}
