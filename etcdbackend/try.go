package etcdbackend

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A pause comes between two rounds through all members, and each is twice as long as the one
// before.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// try asks one member after the other until one answers, each for limit at most, and all until ctx
// is over. It goes round again while a member lets hope that it will answer later: no leader has
// been elected yet, say. The error has the reasons of all members that were asked.
//
// A refusal ends it if it comes from a member of our cluster. Anybody else who refuses is left, like
// one that doesn't answer; if nobody lets hope, one round is all.
//
// late says that a copy of the request, for which no answer was waited, may still be executed: also
// when this one has been answered.
func (s *server) try(ctx context.Context, limit time.Duration, request func(context.Context, *member) error) (late bool, err error) {
	var failed failures
	var relogged []*member
	silent := 0 // how many have not answered since the last login
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		hope := false
		for tried := 0; tried == 0 || tried < s.count(); tried++ { // they are known from the first time on
			m, missing := s.best()
			if missing != nil {
				failed.reasons = append(failed.reasons, missing)
				return late, failed.err()
			}
			c := &call{}
			err := c.attempt(ctx, limit, m, request)
			final := err == nil
			if refused(err) {
				if why := s.known(ctx, limit, m); why != nil {
					err = why
				} else {
					final = true
				}
			}
			late = late || c.maybeDone(err)
			if final {
				return late, err
			}
			hope = hope || c.sent() && !rejected(err) && !errors.Is(err, errForeign) && !errors.Is(err, errLagging)
			if isOverdue(err) && c.sent() {
				silent++
			}
			failed.add(m, err)
			if (ofLogin(err) || rejected(err) && !c.sent()) && !slices.Contains(relogged, m) {
				relogged = append(relogged, m) // the next login goes elsewhere; another cluster will not know that either
				tried--
				continue
			}
			s.leave(m)
			if ctx.Err() != nil {
				return late, failed.err()
			}
			if silent > s.count()/2 {
				silent = 0
				s.login(ctx, limit)
			}
		}
		if !hope {
			return late, failed.err()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return late, failed.err()
		}
	}
}

// login has the client log in again, if it has a user. By itself it does so only when it opens a
// stream, or when a member says that it doesn't know the login.
//
// A member says nothing of a login that refers to a state which it hasn't reached yet: it waits for
// that, and so a cluster that was founded again, or restored, leaves each request unanswered for as
// long as the old one had been at work. So a login is worth a try when most members don't answer.
func (s *server) login(ctx context.Context, limit time.Duration) {
	if s.client.Username == "" {
		return
	}
	_ = s.logins.do(ctx, inBackground, func(ctx context.Context) error {
		m, err := s.best()
		if err != nil {
			return err
		}
		return new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
			p, err := m.pulse(ctx)
			if err != nil {
				return err
			}
			m.keep(p) // for the next keepalive
			return nil
		})
	})
}
