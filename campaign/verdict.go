package main

import (
	"slices"
	"time"
)

// history is what happened in one match.
type history struct {
	Victim []section // without the section with the fault
	Hold   *section  // the section with the fault; nil: the victim was killed in it
	Rival  []section

	Killed      bool
	Injected    moment        // when the fault began
	Silent      bool          // the service heard nothing of the victim for longer than the TTL
	Bound       time.Duration // after the fault, for the rival's grant
	RivalError  string        // the rival was not granted the lock, or failed later
	VictimError string        // the same for the victim, after its section

	Acknowledged, Refused, Lost int // as the store and the workload say
}

// findings are the verdict on one match.
type findings struct {
	Acknowledged, Lost, Refused int

	Overlap    time.Duration  // for how long both believed, in all
	Margin     *time.Duration // from the victim's knowledge that the lock is lost to the rival's grant
	Grant      *time.Duration // from the fault to the rival's grant, if the victim was silent
	Late       bool           // Grant was later than the bound, and a second for the machine
	NotGranted bool           // the rival was not granted the lock in its time
	OutOfOrder int            // tokens that are not larger than the token of a lease from before the acquisition began
	Reversed   int            // further tokens that are smaller than an earlier holder's
	Returned   int            // leases that came back after their loss
	Failed     bool           // a contender failed after the fault: the lock was not available to it
	Cause      string         // why the victim lost its lock, as its library says
	Gap        time.Duration  // the longest time for which a holder didn't look at its lock
}

// machineTime is what a healthy but busy machine may add to a time.
const machineTime = time.Second

// judge reads the history of a match. It doesn't know which library it was.
func judge(h history) findings {
	f := findings{Acknowledged: h.Acknowledged, Lost: h.Lost, Refused: h.Refused}
	victim := slices.Clone(h.Victim)
	if h.Hold != nil {
		victim = append(victim, *h.Hold)
	}
	for _, v := range victim {
		for _, r := range h.Rival {
			f.Overlap += max(0, overlap(v, r))
		}
	}
	all := slices.Concat(victim, h.Rival)
	f.OutOfOrder, f.Reversed = outOfOrder(all), reversed(all)
	for _, s := range all {
		if s.Returned {
			f.Returned++
		}
		f.Gap = max(f.Gap, s.Gap)
	}

	if h.Hold != nil {
		f.Cause = h.Hold.Cause
	}
	granted := firstGrant(h.Rival, h.Injected)
	switch {
	case granted == 0:
		f.NotGranted = h.RivalError != ""
	case h.Silent:
		grant := granted.sub(h.Injected)
		f.Grant, f.Late = &grant, grant > h.Bound+machineTime
	}
	f.Failed = h.RivalError != "" && granted != 0 || h.VictimError != ""
	if granted != 0 && h.Hold != nil && h.Hold.Lost != 0 {
		margin := granted.sub(h.Hold.known())
		f.Margin = &margin
	}
	return f
}

// doubts returns the findings that rest on time, in words: a machine that stalled for long enough
// explains them as well. keeps says that the holder should have kept its lock. What is wrong at any
// speed leaves no doubt, and neither does what the library always does.
func (f findings) doubts(l library, fence, keeps bool) (all []string) {
	if f.Overlap > 0 || fence && f.Lost != 0 || f.Margin != nil && *f.Margin < 0 || f.OutOfOrder+f.Reversed+f.Returned > 0 {
		return nil
	}
	for _, d := range []struct {
		yes  bool
		text string
	}{
		{f.Late, "a late grant"},
		{f.NotGranted && !l.neverExpires, "a rival without a grant"},
		{f.Failed, "a contender that failed"},
		{keeps && !l.noRenewal && (f.Acknowledged != allUpdates || f.Lost != 0 || f.Cause != ""), "a lock that was lost"},
	} {
		if d.yes {
			all = append(all, d.text)
		}
	}
	return all
}

// overlap is for how long two holders believed at the same time. Both ends of a belief are moments
// at which the holder surely believed.
func overlap(a, b section) time.Duration {
	return min(a.Held, b.Held).sub(max(a.Granted, b.Granted))
}

// known is when a holder knew that it had lost the lock: at the first look that showed it, or
// before that at the deadline, which was known already.
func (s section) known() moment {
	if s.Deadline != 0 {
		return min(s.Lost, s.Deadline)
	}
	return s.Lost
}

// firstGrant is the first grant after a moment; 0: none.
func firstGrant(all []section, after moment) (first moment) {
	for _, s := range all {
		if s.Granted > after && (first == 0 || s.Granted < first) {
			first = s.Granted
		}
	}
	return first
}

// outOfOrder counts the tokens that are not larger than all tokens of leases which were granted
// before the acquisition began.
func outOfOrder(all []section) (n int) {
	for _, s := range all {
		if s.Token != 0 && slices.ContainsFunc(all, func(earlier section) bool {
			return earlier.Granted < s.Asked && earlier.Token >= s.Token
		}) {
			n++
		}
	}
	return n
}

// reversed counts the leases whose acquisition began before an earlier holder's grant, and whose
// token is smaller nevertheless: the fence refuses them. Which lease
// is the later one is clear if it was shown as held, because two leases at the same time are a failure
// by themselves.
func reversed(all []section) (n int) {
	for _, s := range all {
		if s.Token != 0 && s.Held >= s.Granted && slices.ContainsFunc(all, func(earlier section) bool {
			return s.Asked <= earlier.Granted && earlier.Granted < s.Granted && earlier.Token >= s.Token
		}) {
			n++
		}
	}
	return n
}
