package conformance

import (
	"reflect"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
)

// Hook names a field of [Hooks].
type Hook string

// The hooks, as cases ask for them.
const (
	HookLinked   Hook = "Linked"
	HookProcess  Hook = "Process"
	HookPause    Hook = "Pause"
	HookDown     Hook = "Down"
	HookRestart  Hook = "Restart"
	HookWipe     Hook = "Wipe"
	HookFailover Hook = "Failover"
	HookRemove   Hook = "Remove"
	HookRequests Hook = "Requests"
	HookPrefixed Hook = "Prefixed"
	HookURL      Hook = "URL"
	HookBadURLs  Hook = "BadURLs"
)

// Hooks are what the suite can do to a service, and see of it, beyond the Locker interface. Each may be left out: the
// cases that need it are then shown as skipped.
type Hooks struct {
	// Linked opens a Locker whose network to the service can be disturbed, and that of no other Locker. A proxy does.
	Linked func(t T) (locker.Locker, Link)

	// Process starts a holder in another process. [process.Start] makes one of a command.
	Process func(t T) process.Process

	// Pause stops the service, as SIGSTOP does: connections stand, nothing is answered, and the service's clocks go on.
	// Resume lets it go on with what has arrived meanwhile.
	Pause, Resume func(t T)

	// Down makes the service fail every request at once, as a port does that nobody listens on. Up ends that. No data is
	// lost.
	Down, Up func(t T)

	// Restart stops the service and starts it again on its data, as an operator does. It returns when requests are served.
	Restart func(t T)

	// Wipe makes the service lose all data, tokens too. Its clocks stay right.
	Wipe func(t T)

	// Failover makes a replica take over that may have missed the latest writes. It returns when requests are served.
	Failover func(t T)

	// Remove takes the lock away from its holder, as an operator does who deletes a key or ends a session.
	Remove func(t T, name string)

	// Requests is the number of requests that the service has got of all Lockers together, without those of the hooks.
	Requests func(t T) int64

	// Waiters is the number of acquisitions that wait in the service's queue for the lock. Without it the suite lets
	// Harness.Settle pass.
	Waiters func(t T, name string) int

	// Residue describes what is left on the service when nobody holds a lock or waits for one: keys, nodes, queue entries,
	// subscriptions. Sessions and connections of Lockers that are still open don't count, nor do counters of tokens and
	// what expires by itself to stop late requests. "" is nothing.
	Residue func(t T) string

	// Prefixed opens a Locker whose names all get a prefix on the service.
	Prefixed func(t T, prefix string) locker.Locker

	// Narrow opens a Locker with the smallest pool of connections there is. Without it Open's do.
	Narrow func(t T) locker.Locker

	// URL opens a Locker on the same service through [locker.Open].
	URL string

	// BadURLs are URLs that can't work, by what is wrong with them: the host, the password, the database, TLS. Secrets are
	// what must not be seen in an error; passwords in BadURLs are found without it.
	BadURLs map[string]string
	Secrets []string

	// Absent gives the reason why a backend can't have a hook: no case that needs it makes sense there.
	Absent map[Hook]string
}

// Link is the network between one Locker and its service.
type Link interface {
	// Cut lets nothing through in either direction, silently: neither side sees a connection end. What was sent meanwhile
	// is lost, or comes through after Heal.
	Cut()
	// Drop loses the next n replies, and what the service sends by itself counts as one: the requests are carried out.
	Drop(n int)
	// Delay makes each request that is sent from now on arrive later, and its reply. A request that is sent after Heal may
	// overtake.
	Delay(there, back time.Duration)
	// Sever breaks the connections there are, visibly. New ones work.
	Sever()
	// Heal ends Cut, Drop and Delay.
	Heal()
}

// missing returns the first of the hooks that c needs and h doesn't have.
func (h *Hooks) missing(c Case) (Hook, bool) {
	for _, hook := range c.Hooks {
		if reflect.ValueOf(h).Elem().FieldByName(string(hook)).IsZero() {
			return hook, true
		}
	}
	return "", false
}
