package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencedlock/locker"
)

// statusRow is a lock for programs. Keys don't change; what the service doesn't know is left out.
type statusRow struct {
	Name    string     `json:"name,omitempty"`
	Key     string     `json:"key"`
	Holder  *partyRow  `json:"holder,omitempty"`
	Waiting int        `json:"waiting"` // -1: the service doesn't know
	Waiters []partyRow `json:"waiters,omitempty"`
	Partial []partyRow `json:"partial,omitempty"`

	now time.Time
}

// partyRow is a holder or a waiter. A token is a text because the numbers of JSON don't hold all of
// them exactly.
type partyRow struct {
	Owner     string     `json:"owner,omitempty"`
	Token     string     `json:"token,omitempty"`
	Label     string     `json:"label,omitempty"` // what it says of itself
	Trace     string     `json:"trace,omitempty"` // W3C traceparent
	Asked     *time.Time `json:"asked,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	ExpiresMS int64      `json:"expires_ms,omitempty"`
	Session   string     `json:"session,omitempty"`
}

// rowOf is a status as it was at now.
func rowOf(s locker.Status, now time.Time) statusRow {
	r := statusRow{Name: s.Name, Key: s.Key, Waiting: s.Waiting, now: now}
	if s.Holder != nil {
		r.Holder = new(partyRow)
		*r.Holder = partyOf(*s.Holder)
	}
	for _, p := range s.Waiters {
		r.Waiters = append(r.Waiters, partyOf(p))
	}
	for _, p := range s.Partial {
		r.Partial = append(r.Partial, partyOf(p))
	}
	return r
}

func partyOf(p locker.Party) partyRow {
	r := partyRow{Owner: p.Owner, Label: p.Holder, Trace: p.Trace, ExpiresMS: p.Expires.Milliseconds(), Session: p.Session}
	if p.Token > 0 {
		r.Token = p.Token.String()
	}
	r.Asked, r.Since = momentOf(p.Asked), momentOf(p.Since)
	return r
}

// momentOf is a time of the service for programs; nil if it isn't known, or no time that JSON can
// have: a service may have anything.
func momentOf(at time.Time) *time.Time {
	at = at.UTC()
	if at.IsZero() || at.Year() < 1 || at.Year() > 9999 {
		return nil
	}
	return &at
}

// held is for how long the lock has been held, or at most; -1 if that isn't known.
func (r statusRow) held() time.Duration {
	switch {
	case r.Holder == nil:
		return -1
	case r.Holder.Since != nil:
		return max(r.now.Sub(*r.Holder.Since), 0) // the service's clock may be ahead
	case r.Holder.Asked != nil:
		return max(r.now.Sub(*r.Holder.Asked), 0)
	}
	return -1
}

// heldText is held in words.
func (r statusRow) heldText() string {
	d := r.held()
	switch {
	case d < 0:
		return "-"
	case r.Holder.Since == nil:
		return "≤ " + short(d)
	}
	return short(d)
}

// short is a time without digits that nobody needs.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// shown is a name or another text of the service, in quotes if a terminal or a reader could take it
// for something else.
func shown(text string) string {
	if printable(text) != text || text != strings.TrimSpace(text) || strings.ContainsAny(text, `"\`) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// title is what people call the lock.
func (r statusRow) title() string {
	if r.Name == "" {
		return "(key " + shown(r.Key) + ")"
	}
	return shown(r.Name)
}

func (r statusRow) waitingText() string {
	if r.Waiting < 0 {
		return "?"
	}
	return strconv.Itoa(r.Waiting)
}

// holderText is the token of the holder, and who it is, in few words.
func (r statusRow) holderText() (token, who string) {
	token, who = "-", "-"
	if p := r.Holder; p != nil {
		if p.Token != "" {
			token = p.Token
		}
		if who = "?"; p.Label != "" || p.Owner != "" || p.Session != "" {
			who = p.who()
		}
	}
	return token, who
}

func rowsText(rows []statusRow, took time.Duration) string {
	var b strings.Builder
	if len(rows) > 0 {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tHELD\tENDS IN\tWAITING\tTOKEN\tHOLDER")
		for _, r := range rows {
			ends := "-"
			if p := r.Holder; p != nil && p.ExpiresMS > 0 {
				ends = short(time.Duration(p.ExpiresMS) * time.Millisecond)
			}
			token, who := r.holderText()
			fmt.Fprintln(w, strings.Join([]string{r.title(), r.heldText(), ends, r.waitingText(), token, who}, "\t"))
		}
		_ = w.Flush()
	}
	waiting := 0
	for _, r := range rows {
		waiting += max(r.Waiting, 0)
	}
	fmt.Fprintf(&b, "%d locks, %d waiting (%v)\n", len(rows), waiting, took.Round(time.Millisecond))
	return b.String()
}

// who identifies a party in few words.
func (p partyRow) who() string {
	if p.Label != "" {
		return shown(p.Label)
	}
	if p.Session != "" {
		return "session " + shown(p.Session)
	}
	return "owner " + shown(p.Owner)
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
	add(p.Session != "", "session %s", shown(p.Session))
	add(p.Owner != "", "owner %s", shown(p.Owner))
	if locker.ValidTrace(p.Trace) {
		add(true, "trace %s", p.Trace[3:35])
	}
	if len(parts) == 0 {
		return "somebody of whom nothing is known"
	}
	return strings.Join(parts, ", ")
}
