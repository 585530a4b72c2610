package conformance

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

// Hook names a field of [Hooks].
type Hook string

// The hooks, for the Hooks of a [Case] and for Absent.
const (
	HookLinked    Hook = "Linked"
	HookForgetful Hook = "Forgetful"
	HookProcess   Hook = "Process"
	HookSkewed    Hook = "Skewed"
	HookPause     Hook = "Pause"
	HookDown      Hook = "Down"
	HookRestart   Hook = "Restart"
	HookWipe      Hook = "Wipe"
	HookFailover  Hook = "Failover"
	HookRemove    Hook = "Remove"
	HookRequests  Hook = "Requests"
	HookWaiters   Hook = "Waiters"
	HookResidue   Hook = "Residue"
	HookNarrow    Hook = "Narrow"
	HookPrefixed  Hook = "Prefixed"
	HookURL       Hook = "URL"
	HookBadURLs   Hook = "BadURLs"
)

// Hooks are what the suite can do to a service, and what it can see of the service, beyond the
// Locker interface. Each hook may be left out: then the cases that need it are skipped, and say so.
type Hooks struct {
	// Linked opens a Locker whose network to the service can be disturbed, without an effect on
	// other Lockers. For a service that is reached by TCP, package proxy has such a network.
	Linked func(t T) (locker.Locker, Link)

	// Forgetful is Linked with a network that can also forget connections. Leave it out if the Link of
	// Linked is a [ForgetfulLink], as package proxy's network is: the suite then uses Linked. But a
	// Locker fails these cases if it uses a client whose pool keeps dead connections. If that is how
	// Linked opens it, Forgetful opens one that makes its own connections, for example by URL. If the
	// backend has no such Locker, say so in Absent.
	Forgetful func(t T) (locker.Locker, ForgetfulLink)

	// Process starts a holder in another process. [process.Start] starts one from a command.
	Process func(t T) process.Process

	// Skewed starts a holder in another process whose wall clock is wrong: ahead of the machine's,
	// or behind it if ahead is negative. Its monotonic clock is right. [process.BuildSkewed] builds
	// a program that has such a clock.
	Skewed func(t T, ahead time.Duration) process.Process

	// Pause suspends the service, as SIGSTOP does: connections stay open, nothing is answered, and
	// clocks go on, so leases expire. Pause returns when the service has stopped: a process still
	// answers for a moment after the signal was sent. Resume ends that; the service then executes
	// what has arrived meanwhile. Both are one hook: with only one of them it is missing.
	Pause, Resume func(t T)

	// Down makes each request to the service fail at once, as on a port on which nobody listens. Up
	// ends that. No data is lost: a service that keeps its data in memory goes on, while its
	// Lockers' connections are broken and their dialers fail. Both are one hook, as Pause and Resume.
	Down, Up func(t T)

	// Restart kills the service (kill -9) and starts it again on its data. A service that is asked
	// to stop may save then what a crash loses, such as a counter of tokens. Restart returns when
	// the service answers. A service that stores nothing loses all its data, as by Wipe.
	Restart func(t T)

	// Wipe makes the service lose all its data, tokens included. The service's clocks stay right.
	Wipe func(t T)

	// Failover makes a replica take over that may have missed the latest writes. It returns when
	// the replica answers.
	Failover func(t T)

	// Remove takes the lock away from its holder, as an operator does by deleting a key or ending a
	// session.
	Remove func(t T, name string)

	// Requests is the number of requests that the service has got from all Lockers together,
	// without the hooks' own: those about locks, and those that keep alive what locks are attached
	// to. What a client sends by itself over a connection that nobody uses, such as a ping, doesn't
	// count.
	Requests func(t T) int64

	// Waiters is the number of acquisitions that wait for the lock in the service's queue. Without
	// this hook the suite lets Harness.Settle pass.
	Waiters func(t T, name string) int

	// Residue describes what is left on the service when nobody holds a lock or waits for one:
	// keys, nodes, queue entries, subscriptions. "" is nothing. Three things don't count: sessions
	// and connections of Lockers that are open, counters of tokens, and what expires by itself and
	// stops late requests until then.
	Residue func(t T) string

	// Prefixed opens a Locker that adds a prefix to each name on the service.
	Prefixed func(t T, prefix string) locker.Locker

	// Narrow opens a Locker with the smallest pool of connections that the backend allows. Without
	// this hook Open is used.
	Narrow func(t T) locker.Locker

	// URL opens a Locker on the same service through [locker.Open].
	URL string

	// BadURLs are URLs that can't work, by what is wrong with them: the host, the password, the
	// database, TLS. Secrets are texts that no error may contain, in addition to the passwords in
	// BadURLs.
	BadURLs map[string]string
	Secrets []string

	// Absent gives the reason why a hook is left out: no case that needs it makes sense for the
	// backend.
	Absent map[Hook]string
}

// Link is the network between one Locker and its service.
type Link interface {
	// Cut lets nothing through in either direction, silently: neither side sees a connection end.
	// What is sent meanwhile is lost, or arrives after Heal.
	Cut()
	// Drop loses the next n replies. The requests are executed. What the service sends by itself
	// counts as a reply.
	Drop(n int)
	// Delay makes each request that is sent from now on arrive later, and its reply too. A request
	// that is sent after Heal may overtake an earlier one.
	Delay(there, back time.Duration)
	// Sever breaks the existing connections, visibly. New connections work.
	Sever()
	// Heal ends Cut, Drop and Delay.
	Heal()
}

// OneWayLink is a Link that can also be cut in one direction. Heal ends both cuts.
type OneWayLink interface {
	Link
	// CutRequests lets nothing through from the Locker to the service, silently. What the service
	// sends still arrives.
	CutRequests()
	// CutReplies lets nothing through from the service to the Locker, silently. Requests are still
	// executed. What the service sends by itself counts as a reply.
	CutReplies()
}

// ForgetfulLink is a Link that can also lose its connections without a sign, as a NAT or a firewall
// does that has forgotten them.
type ForgetfulLink interface {
	Link
	// Forget makes the connections that exist carry nothing more, in either direction, silently:
	// neither side sees them end. New connections work. Heal may break what was forgotten, visibly,
	// and never brings it back.
	Forget()
}

// MessageLink is a Link that can also disturb one chosen request. Requests are counted from the
// call on, so 1 is the next request that the Locker sends; a renewal of many locks may be one
// request. A call adds to earlier ones. Heal ends what has not happened yet, and what is on its way
// keeps its time.
type MessageLink interface {
	Link
	// LoseRequest loses the nth request: it is never executed.
	LoseRequest(n int)
	// LoseReply loses the reply to the nth request: it is executed.
	LoseReply(n int)
	// RepeatRequest makes the nth request arrive twice, the second time later by after. Its second
	// reply is lost.
	RepeatRequest(n int, after time.Duration)
	// DelayRequest makes the nth request arrive later by late. Later requests overtake it.
	DelayRequest(n int, late time.Duration)
}

// partners are the fields that end what a hook begins: they are one hook with it.
var partners = map[Hook]string{HookPause: "Resume", HookDown: "Up"}

// lack is what h doesn't have of a hook; empty: it has the hook.
func (h *Hooks) lack(hook Hook) string {
	isSet := func(field string) bool { return !reflect.ValueOf(h).Elem().FieldByName(field).IsZero() }
	partner, two := partners[hook]
	switch own := isSet(string(hook)); {
	case own && two && !isSet(partner):
		return fmt.Sprintf("%s to its %s", partner, hook)
	case !own && two && isSet(partner):
		return fmt.Sprintf("%s to its %s", hook, partner)
	case !own:
		return fmt.Sprintf("hook %s", hook)
	}
	return ""
}

// findForgetful makes Linked the hook Forgetful, if the case needs that and the links can forget. Only a link
// shows whether they can, so a Locker is opened.
func (h *Harness) findForgetful(t T, c Case) {
	t.Helper()
	_, absent := h.Absent[HookForgetful]
	if absent || h.Forgetful != nil || h.Linked == nil || !slices.Contains(c.Hooks, HookForgetful) {
		return
	}
	l, link := h.Linked(t)
	step.Close(t, l)
	if _, can := link.(ForgetfulLink); can {
		h.Forgetful = func(t T) (locker.Locker, ForgetfulLink) {
			t.Helper()
			l, link := h.Linked(t)
			return l, link.(ForgetfulLink) //nolint:forcetypeassert // as the first one
		}
	}
}

// missing returns the first of the hooks that c needs and h doesn't have, and what h lacks of it; empty: h has all.
func (h *Hooks) missing(c Case) (hook Hook, lack string) {
	for _, hook := range c.Hooks {
		if lack := h.lack(hook); lack != "" {
			return hook, lack
		}
	}
	return "", ""
}
