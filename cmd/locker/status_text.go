package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// who identifies a party in few words.
func (p partyRow) who() string {
	if p.Label != "" {
		return shown(p.Label)
	}
	if p.Session != "" {
		return p.attached()
	}
	return "owner " + shown(p.Owner)
}

// attached says what a party's lock ends with. A process that is 0 here is in another namespace.
func (p partyRow) attached() string {
	switch {
	case p.process && p.Session == "0":
		return "process of another namespace"
	case p.process:
		return "process " + shown(p.Session)
	}
	return "session " + shown(p.Session)
}

// text is the lock for people.
func (r statusRow) text(backend string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, key %s\n", r.title(), backend, shown(r.Key))
	if r.Holder == nil {
		fmt.Fprintf(&b, "  free\n")
	} else {
		fmt.Fprintf(&b, "  held by  %s\n", r.Holder.text(r.now))
	}
	for _, p := range r.Partial {
		fmt.Fprintf(&b, "  on some servers, no majority  %s\n", p.text(r.now))
	}
	fmt.Fprintf(&b, "  waiting  %s\n", r.waitingText())
	for i, p := range r.Waiters {
		fmt.Fprintf(&b, "  %6d.  %s\n", i+1, p.text(r.now))
	}
	if more := r.Waiting - len(r.Waiters); len(r.Waiters) > 0 && more > 0 {
		fmt.Fprintf(&b, "           and %d more\n", more)
	}
	return b.String()
}

// text is all that is known of a party.
func (p partyRow) text(now time.Time) string {
	var parts []string
	add := func(known bool, format string, args ...any) {
		if known {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(p.Label != "", "%s", shown(p.Label))
	add(p.Token != "", "token %s", p.Token)
	if p.Since != nil {
		add(true, "since %s (%s)", p.Since.Local().Format(time.DateTime), short(max(now.Sub(*p.Since), 0)))
	}
	if p.Asked != nil {
		add(true, "asked at %s (%s ago)", p.Asked.Local().Format(time.DateTime), short(max(now.Sub(*p.Asked), 0)))
	}
	add(p.ExpiresMS > 0, "ends in %s unless renewed", short(time.Duration(p.ExpiresMS)*time.Millisecond))
	add(p.Session != "", "%s", p.attached())
	add(p.Owner != "", "owner %s", shown(p.Owner))
	if locker.ValidTrace(p.Trace) {
		add(true, "trace %s", p.Trace[3:35])
	}
	if p.Broken != nil {
		add(true, "%s", p.Broken.text())
	}
	if len(parts) == 0 {
		return "somebody of whom nothing is known"
	}
	return strings.Join(parts, ", ")
}
