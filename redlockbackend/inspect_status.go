package redlockbackend

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// What the servers' records of a lock come to is decided in this file: records in, status out.

// claim is an owner that has a lock on some servers, or all the values there that have no owner.
type claim struct {
	owner   string
	token   locker.Token
	foreign bool
	label   string
	left    []time.Duration // on each of them
	breach  *locker.Breach  // of a mark on one of them
	marks   int             // on how many it is marked
}

// statusOf describes a lock by what the servers know of it. An owner that has it with one token on
// a majority is the holder. So is what somebody else has written on a majority, because it keeps
// everybody out. An owner that has it on fewer servers asks for it, or has left something there.
// sure is false if nobody is the holder, and with the silent servers somebody could be.
func statusOf(records []record, quorum, silent, waiters int) (s locker.Status, sure bool) {
	var claims []claim
	add := func(r record) {
		i := slices.IndexFunc(claims, func(c claim) bool { return c.owner == r.owner && c.token == r.token && c.foreign == r.foreign })
		if i < 0 {
			i = len(claims)
			claims = append(claims, claim{owner: r.owner, token: r.token, foreign: r.foreign, label: r.label})
		}
		claims[i].left = append(claims[i].left, r.left)
		if r.breach != nil {
			claims[i].breach, claims[i].marks = r.breach, claims[i].marks+1
		}
	}
	tickets := make(map[string]place) // of those that wait, by the id of their Locker
	for _, r := range records {
		s.Waiting = max(s.Waiting, r.waiting)
		for _, p := range r.first {
			id := p.channel[strings.LastIndexByte(p.channel, ':')+1:]
			if p.ticket >= tickets[id].ticket { // else it is of an acquisition that doesn't wait any more
				tickets[id] = p
			}
		}
		switch {
		case r.turn:
			if _, known := tickets[r.owner]; !known {
				tickets[r.owner] = place{} // it comes first
			}
		case r.held:
			add(r)
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(len(b.left), len(a.left)) })
	sure = true
	for _, c := range claims {
		holds := c.token > 0 || c.foreign
		p := locker.Party{Owner: c.owner, Token: c.token, ExpiresIn: majorityLeft(c.left, quorum)}
		driver.ParseLabel(c.label).Describe(&p)
		if len(c.left)-c.marks < quorum { // else the lease is renewed on the others
			p.Broken = c.breach
		}
		switch {
		case holds && len(c.left) >= quorum:
			s.Holder = &p
		case s.Holder == nil || s.Holder.Owner != c.owner: // else it hasn't raised the counter on some servers
			s.Partial = append(s.Partial, p)
			sure = sure && (s.Holder != nil || !holds || len(c.left)+silent < quorum)
		}
	}
	s.Waiters = inOrder(tickets)
	s.Waiting = max(s.Waiting, len(s.Waiters))
	s.Waiters = s.Waiters[:min(len(s.Waiters), waiters)]
	return s, sure
}

// majorityLeft is how long it takes until a lease is over on so many servers that it has no
// majority any more. For one that has no majority it is the longest time of its servers. Zero says
// never.
func majorityLeft(left []time.Duration, quorum int) time.Duration {
	left = slices.Clone(left)
	slices.SortFunc(left, func(a, b time.Duration) int {
		if (a == 0) != (b == 0) { // never is the longest
			return cmp.Compare(min(a, 1), min(b, 1))
		}
		return cmp.Compare(b, a)
	})
	if len(left) < quorum {
		return left[0]
	}
	return left[quorum-1]
}

// inOrder are waiters by their tickets.
func inOrder(tickets map[string]place) []locker.Party {
	ids := slices.SortedFunc(maps.Keys(tickets), func(a, b string) int {
		return cmp.Or(cmp.Compare(tickets[a].ticket, tickets[b].ticket), cmp.Compare(a, b))
	})
	waiters := make([]locker.Party, len(ids))
	for i, id := range ids {
		waiters[i] = locker.Party{Owner: id, Asked: redisconn.Moment(tickets[id].ticket)}
		driver.ParseLabel(tickets[id].label).Describe(&waiters[i])
	}
	return waiters
}
