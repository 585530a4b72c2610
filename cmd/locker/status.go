package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/tally"
)

// statusRow is a lock for programs. Keys don't change; what the service doesn't know is left out.
type statusRow struct {
	Name    string     `json:"name,omitempty"`
	Slot    int        `json:"slot,omitempty"` // of a permit, from 1 on; -1: the line of those who wait for one
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
	Broken    *breachRow `json:"broken,omitempty"` // it is being taken away

	process bool // Session is a process of this machine
}

// rowOf is a status of a backend as it was at now.
func rowOf(backend string, s locker.Status, now time.Time) statusRow {
	r := statusRow{Name: s.Name, Slot: s.Slot, Key: s.Key, Waiting: s.Waiting, now: now}
	if s.Holder != nil {
		r.Holder = new(partyRow)
		*r.Holder = partyOf(backend, *s.Holder)
	}
	for _, p := range s.Waiters {
		r.Waiters = append(r.Waiters, partyOf(backend, p))
	}
	for _, p := range s.Partial {
		r.Partial = append(r.Partial, partyOf(backend, p))
	}
	return r
}

func partyOf(backend string, p locker.Party) partyRow {
	r := partyRow{Owner: p.Owner, Label: p.Holder, Trace: p.Trace, ExpiresMS: milliseconds(p.ExpiresIn), Session: p.Session}
	if p.Token > 0 {
		r.Token = p.Token.String()
	}
	r.process = backend == "file" && p.Session != ""
	r.Asked, r.Since = momentOf(p.Asked), momentOf(p.Since)
	if p.Broken != nil {
		r.Broken = breachOf(*p.Broken)
	}
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

// milliseconds rounds up: both times that are written so say when something happens at the latest, and 0 has a
// meaning of its own.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
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
	name := shown(r.Name)
	if r.Name == "" {
		name = "(key " + shown(r.Key) + ")"
	}
	switch {
	case r.Slot == locker.LineSlot:
		return name + ", line for permits"
	case r.Slot != 0:
		return fmt.Sprintf("%s, permit %d", name, r.Slot)
	}
	return name
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
			if r.Holder != nil && r.Holder.Broken != nil {
				who += " (being taken away)"
			}
			fmt.Fprintln(w, strings.Join([]string{r.title(), r.heldText(), ends, r.waitingText(), token, who}, "\t"))
		}
		_ = w.Flush()
	}
	fmt.Fprintf(&b, "%s (%v)\n", tallyOf(rows), took.Round(time.Millisecond))
	return b.String()
}

// tallyOf counts the rows, and who waits.
func tallyOf(rows []statusRow) *tally.Tally {
	var t tally.Tally
	for _, r := range rows {
		t.Add(r.Name, r.Slot, r.Holder != nil, r.Waiting)
	}
	return &t
}
