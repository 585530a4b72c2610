package etcdconn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// A pause comes between two rounds through all members. Each pause is twice as long as the one
// before.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// try asks one member after the other until one answers, each for limit at most, and all until ctx
// is over. It begins another round while a member may answer later. For example, no leader has been
// elected yet, or the member is just being dialled. The error has the reasons of all members that were
// asked.
//
// A refusal ends it if it comes from a member of the own cluster. A server of another cluster that
// refuses is treated like a server that doesn't answer: the next one is asked. If no member may
// answer later, there is one round.
//
// A member is left when an attempt at it has failed. If ctx has ended, that says nothing of the member
// until it has been silent for half of limit: callers that give up early don't take others away from it.
//
// late says that a copy of the request may still be executed, whose answer was not waited for. That
// is possible also when the request has been answered.
func (c *Cluster) try(
	ctx context.Context, limit time.Duration, request func(context.Context, *member) error,
) (late bool, err error) {
	var failed failures
	var loggedIn []*member // asked a second time, with another login
	silent := 0            // how many have not answered since the last login
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		mayAnswer := false
		for tried := 0; tried == 0 || tried < c.Members(); tried++ { // they are known from the first time on
			m, err := c.firstMember()
			if err != nil {
				failed.reasons = append(failed.reasons, err)
				return late, failed.err(c.Members())
			}
			r := &call{}
			err = r.attempt(ctx, limit, m, request)
			final := err == nil
			if refused(err) {
				if why := c.verifyRefusal(ctx, limit, m); why != nil {
					late = late || r.maybeDone(err) // the caller gets another error, which says nothing of it
					err = why
				} else {
					final = true
				}
			}
			late = late || r.maybeLate(err)
			if final {
				return late, err
			}
			mayAnswer = mayAnswer || r.mayAnswer(limit, m, err)
			if IsOverdue(err) && r.sent() {
				silent++
			}
			failed.add(m, err, ctx.Err() != nil)
			if (isLogin(err) || rejected(err) && !r.sent()) && !slices.Contains(loggedIn, m) {
				loggedIn = append(loggedIn, m) // the next login goes elsewhere; another cluster won't know that either
				tried--
				continue
			}
			if ctx.Err() == nil || m.isSilent(limit) {
				c.leave(m)
			}
			if ctx.Err() != nil {
				return late, failed.err(c.Members())
			}
			if silent > c.Members()/2 {
				silent = 0
				c.logIn(ctx, limit)
			}
		}
		if !mayAnswer || !kit.Sleep(ctx, pause) {
			return late, failed.err(c.Members())
		}
	}
}

// mayAnswer reports whether m, where the call has failed with err, may answer later.
func (c *call) mayAnswer(limit time.Duration, m *member, err error) bool {
	switch {
	case rejected(err) || errors.Is(err, ErrForeign) || errors.Is(err, ErrBehind):
		return false
	case c.sent():
		return true
	}
	return m.isRedialled(limit / 8) // the error is perhaps of the dial before
}
