package observe

import (
	"encoding/json"
	"expvar"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencedlock/locker"
)

// Expvar publishes the statistics of l under name, as package expvar does: as JSON, with times in nanoseconds. It is
// null when l is not [locker.Observable]. Like [expvar.Publish] it panics if the name is in use, and nothing takes the
// name back.
func Expvar(name string, l locker.Locker) {
	expvar.Publish(name, expvar.Func(func() any {
		s, ok := locker.StatsOf(l)
		if !ok {
			return nil
		}
		return s
	}))
}

// Debug serves what these lockers do, under the names of the map: their statistics, and a line for each lease, each
// call of Acquire that waits and each removal under way. It is plain text, or JSON with times in nanoseconds if the
// request has the parameter format=json or accepts application/json alone. A locker that is not [locker.Observable] is
// named without numbers.
//
// The page shows names of locks and errors of the service. So it belongs where other pages for operators are.
func Debug(lockers map[string]locker.Locker) http.Handler {
	lockers = maps.Clone(lockers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := make(map[string]*shownLocker, len(lockers))
		for name, l := range lockers {
			shown[name] = show(l)
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.Query().Get("format") == "json" || r.Header.Get("Accept") == "application/json" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(shown) // the client has gone
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			shown[name].write(w, name)
		}
	})
}

// shownLocker is a locker as Debug shows it.
type shownLocker struct {
	Backend string
	Stats   *locker.Stats // nil: the locker is not observable
	Leases  []shownLease  // the oldest first
}

// shownLease is a lease with its error as a text.
type shownLease struct {
	locker.LeaseInfo
	For time.Duration // in its state
	Err string        `json:",omitempty"`
}

func show(l locker.Locker) *shownLocker {
	shown := &shownLocker{Backend: l.Guarantees().Backend}
	stats, ok := locker.StatsOf(l)
	if !ok {
		return shown
	}
	shown.Stats = &stats
	leases, _ := locker.Leases(l)
	slices.SortFunc(leases, func(a, b locker.LeaseInfo) int { return a.Since.Compare(b.Since) })
	for _, info := range leases {
		line := shownLease{LeaseInfo: info, For: max(time.Since(info.Since), 0)}
		if info.Err != nil {
			line.Err = info.Err.Error()
		}
		shown.Leases = append(shown.Leases, line)
	}
	return shown
}

func (l *shownLocker) write(w io.Writer, name string) {
	fmt.Fprintf(w, "%s on %s\n\n", name, l.Backend)
	if l.Stats == nil {
		fmt.Fprint(w, "This locker doesn't say what it does.\n\n")
		return
	}
	s, table := l.Stats, tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "held\t%d\toldest %v\n", s.Held, coarse(s.OldestHeld))
	fmt.Fprintf(table, "waiting\t%d\toldest %v\n", s.Waiting, coarse(s.OldestWaiting))
	fmt.Fprintf(table, "kept\t%d\toldest %v\n", s.Kept, coarse(s.OldestKept))
	fmt.Fprintf(table, "removing\t%d\toldest %v\n", s.Removing, coarse(s.OldestRemoving))
	fmt.Fprintf(table, "granted\t%d\t%d of them contended\n", s.Granted, s.Contended)
	fmt.Fprintf(table, "refused\t%d\t%s\n", sum(s.Refused), byReason(s.Refused))
	fmt.Fprintf(table, "renewed\t%d\t%d failed\n", s.Renewed, s.RenewalsFailed)
	fmt.Fprintf(table, "lost\t%d\t%s\n", sum(s.Lost), byReason(s.Lost))
	fmt.Fprintf(table, "released\t%d\t%d tries of removals failed\n", s.Released, s.RemovalsFailed)
	fmt.Fprintf(table, "requeued\t%d\t\nabandoned\t%d\t\nevents dropped\t%d\t\n\n", s.Requeued, s.Abandoned, s.EventsDropped)
	if len(l.Leases) > 0 {
		fmt.Fprint(table, "state\tfor\tid\tname\ttoken\tholder\terror\n")
	}
	for _, line := range l.Leases {
		fmt.Fprintf(table, "%s\t%v\t%d\t%s\t%v\t%q\t%s\n", line.State, coarse(line.For), line.ID, lockName(line.LeaseInfo), line.Token, line.Holder, oneLine(line.Err))
	}
	_ = table.Flush() // the client has gone
	fmt.Fprintln(w)
}

// lockName is the name in quotes, and what it is of the name if that isn't the lock.
func lockName(info locker.LeaseInfo) string {
	switch {
	case info.Slot == locker.LineSlot:
		return strconv.Quote(info.Name) + " line"
	case info.Slot != 0:
		return strconv.Quote(info.Name) + " slot " + strconv.Itoa(info.Slot)
	}
	return strconv.Quote(info.Name)
}

func coarse(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func sum(counts map[string]uint64) (n uint64) {
	for _, count := range counts {
		n += count
	}
	return n
}

func byReason(counts map[string]uint64) string {
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return strings.Join(list, ", ")
}
