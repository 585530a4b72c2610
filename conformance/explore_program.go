package conformance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Program is what [Explore] executes: operations on some Lockers, in order of time. [Replay]
// executes one program. Each subset of the steps of a program is a program too: a step that makes
// no sense, such as the release of a lease that was not granted, does nothing.
type Program struct {
	Lockers []Opening
	Names   []string // see [Step.Name]
	Steps   []Step
}

// Opening says how a Locker of a program is opened.
type Opening struct {
	Linked bool   // by the hook Linked, so that its network can be disturbed; otherwise by Open
	Prefix string // by the hook Prefixed, with this prefix after the prefix of the run
	Slot   int    // which slot of each name the Locker acquires; 0, or where there are no permits: the lock
}

// Verb is what a step does:
//
//   - "acquire": Locker calls Acquire on Name;
//   - "renew", "release", "cancel": what ID has acquired, or its context;
//   - "probe": another Locker, which no link disturbs and which has the Slot of the first, calls
//     TryAcquire on the name of ID, and releases what it gets;
//   - "read": Locker calls CurrentToken on Name;
//   - "invalid": Locker calls Acquire with arguments that no backend may accept;
//   - "nest": the Locker of ID calls Acquire for the same lock, with a context of ID's lease;
//   - "close": Locker is closed;
//   - "remove": an operator removes the lock of ID;
//   - "cut", "cut-requests", "cut-replies", "delay", "drop", "sever", "forget", "heal": the methods of
//     [Link], [OneWayLink] and [ForgetfulLink], on the link of Locker;
//   - "lose-request", "lose-reply", "repeat-request", "delay-request": the methods of
//     [MessageLink];
//   - "pause", "resume", "down", "up", "restart", "wipe", "failover": the hooks of that name.
type Verb string

// Forever is the Wait of an acquisition that waits until it is cancelled.
const Forever time.Duration = -1

// Step is one operation of a [Program]. It begins at At, and steps with the same At begin together.
// Each call is made in its own goroutine.
type Step struct {
	At     time.Duration // from the start of the program
	Do     Verb
	Locker int // index in Lockers

	// Name is an index in Names. An entry of Names is the end of a lock's name, whose beginning is
	// new in each run. "…end" fills the name up to the longest that is allowed, before the end;
	// "start…" begins the name and fills it up after that. "crc32:1" and "crc32:2" are two names
	// with the same CRC-32. There are such pairs for crc32c, adler, fnv1a, fnv1, java and djb2, too.
	Name int

	// ID is the number of an acquisition. With Count the step is about ID to ID+Count-1. Where
	// Count acquisitions begin together, each is on a name of its own, unless Same is set.
	ID    int
	Count int
	Same  bool

	// Spread acquisitions out of Count come from a Locker each, from Locker on, and so on in turn.
	Spread int

	TTL       time.Duration // of an acquisition; 0: the Locker's own
	Wait      time.Duration // of an acquisition; 0: NoWait
	MaxHold   time.Duration
	NoRenewal bool
	Over      bool // the context of the call is over before the call

	N           int           // which request, or how many replies
	There, Back time.Duration // of a delay; There also of one request
}

// count is how many acquisitions a step is about.
func (s Step) count() int { return max(s.Count, 1) }

// sorted returns the steps in order of time.
func (p Program) sorted() []Step {
	steps := slices.Clone(p.Steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return int(a.At - b.At) })
	return steps
}

// String is the program as Go.
func (p Program) String() string {
	var b strings.Builder
	b.WriteString("conformance.Program{\n\tLockers: []conformance.Opening{")
	for i, o := range p.Lockers {
		if i > 0 {
			b.WriteString(", ")
		}
		if o == (Opening{}) && !slices.ContainsFunc(p.Lockers[i:], func(o Opening) bool { return o != Opening{} }) {
			fmt.Fprintf(&b, "%d: {}", len(p.Lockers)-1) // and all before it
			break
		}
		b.WriteString("{" + fields(reflect.ValueOf(o)) + "}")
	}
	fmt.Fprintf(&b, "},\n\tNames: %#v,\n\tSteps: []conformance.Step{\n", p.Names)
	for _, s := range p.sorted() {
		b.WriteString("\t\t{" + fields(reflect.ValueOf(s)) + "},\n")
	}
	b.WriteString("\t},\n}")
	return b.String()
}

// fields are the fields of a struct that aren't zero, as Go.
func fields(v reflect.Value) string {
	var list []string
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.IsZero() && name != "At" {
			continue
		}
		text := fmt.Sprintf("%#v", f.Interface())
		if d, ok := f.Interface().(time.Duration); ok {
			text = durationAsGo(d)
		}
		if f.Kind() == reflect.String {
			text = fmt.Sprintf("%q", f.String())
		}
		list = append(list, name+": "+text)
	}
	return strings.Join(list, ", ")
}

// durationAsGo is a duration in the largest unit that shows it exactly.
func durationAsGo(d time.Duration) string {
	if d == Forever {
		return "conformance.Forever"
	}
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}} {
		if d%u.unit == 0 && d != 0 {
			return fmt.Sprintf("%d * time.%s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d", d)
}

// trimmed leaves out the Lockers and names that no step uses, so that a short program is short.
func (p Program) trimmed() Program {
	short := Program{Steps: p.sorted()}
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Spread > 0 }) {
		return p // its Lockers must stay neighbours
	}
	lockers, names := make(map[int]int), make(map[int]int)
	for i := range short.Steps {
		s := &short.Steps[i]
		s.Locker = renumber(lockers, s.Locker, func() { short.Lockers = append(short.Lockers, p.Lockers[s.Locker]) })
		if len(p.Names) > 0 {
			s.Name = renumber(names, s.Name, func() { short.Names = append(short.Names, p.Names[s.Name]) })
		}
	}
	return short
}

func renumber(seen map[int]int, old int, add func()) int {
	number, ok := seen[old]
	if !ok {
		number = len(seen)
		seen[old] = number
		add()
	}
	return number
}
