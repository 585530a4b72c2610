package redlockbackend

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// What the servers' records of a lock come to is decided in this file: records in, status out.

// claim is an owner that has a lock on some servers.
type claim struct {
	owner string
	token locker.Token
	left  []time.Duration // on each of them
}

// statusOf describes a lock by what the servers know of it. Who has it with one token on a majority
// is the holder. Who has it on fewer is asking for it, or has left something there.
func statusOf(records []record, quorum, waiters int) locker.Status {
	var s locker.Status
	var claims []claim
	add := func(r record) {
		i := slices.IndexFunc(claims, func(c claim) bool { return c.owner == r.owner && c.token == r.token })
		if i < 0 {
			i = len(claims)
			claims = append(claims, claim{owner: r.owner, token: r.token})
		}
		claims[i].left = append(claims[i].left, r.left)
	}
	tickets := make(map[string]int64) // of those that wait, by the id of their Locker
	for _, r := range records {
		s.Waiting = max(s.Waiting, r.waiting)
		for _, p := range r.first {
			id := p.channel[strings.LastIndexByte(p.channel, ':')+1:]
			tickets[id] = max(tickets[id], p.ticket)
		}
		switch {
		case r.turn:
			if _, known := tickets[r.owner]; !known {
				tickets[r.owner] = 0 // it comes first
			}
		case r.held:
			add(r)
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(len(b.left), len(a.left)) })
	for _, c := range claims {
		p := locker.Party{Owner: c.owner, Token: c.token, Expires: majorityLeft(c.left, quorum)}
		switch {
		case len(c.left) >= quorum && c.token > 0:
			s.Holder = &p
		case s.Holder == nil || s.Holder.Owner != c.owner: // else it hasn't raised the counter on some servers
			s.Partial = append(s.Partial, p)
		}
	}
	s.Waiters = inOrder(tickets)
	s.Waiting = max(s.Waiting, len(s.Waiters))
	s.Waiters = s.Waiters[:min(len(s.Waiters), waiters)]
	return s
}

// majorityLeft is when a lease is over on so many servers that it has no majority any more. Zero
// says never, or that it has none.
func majorityLeft(left []time.Duration, quorum int) time.Duration {
	if len(left) < quorum {
		return slices.Max(left)
	}
	left = slices.Clone(left)
	slices.SortFunc(left, func(a, b time.Duration) int {
		if (a == 0) != (b == 0) { // never is the longest
			return cmp.Compare(min(a, 1), min(b, 1))
		}
		return cmp.Compare(b, a)
	})
	return left[quorum-1]
}

// inOrder are waiters by their tickets.
func inOrder(tickets map[string]int64) []locker.Party {
	waiters := make([]locker.Party, 0, len(tickets))
	for id, ticket := range tickets {
		p := locker.Party{Owner: id}
		if ticket > 0 {
			p.Asked = time.UnixMicro(ticket)
		}
		waiters = append(waiters, p)
	}
	slices.SortFunc(waiters, func(a, b locker.Party) int {
		return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Owner, b.Owner))
	})
	return waiters
}
