//go:build unix

package pg

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

const labelTTL = 3 * time.Second // renewed within a second

// holderOf is who holds a lock, as another Locker sees it.
func holderOf(t *testing.T, looker locker.Locker, name string) locker.Party {
	t.Helper()
	s, err := locker.Inspect(t.Context(), looker, name, locker.Look{Waiters: 5})
	if err != nil || s.Holder == nil {
		t.Fatalf("Inspect(%q) = %+v, %v, want a holder", name, s, err)
	}
	return *s.Holder
}

// described waits until the server shows what a lease says of itself.
func described(t *testing.T, looker locker.Locker, lease locker.Lease, holder string) (p locker.Party) {
	t.Helper()
	step.Eventually(t, itest.ShortWait, func() error {
		left := time.Until(lease.Deadline())
		if p = holderOf(t, looker, lease.Name()); p.Holder != holder || p.Token != lease.Token() {
			return fmt.Errorf("Inspect shows %+v, want %q and token %v", p, holder, lease.Token())
		}
		if p.Since.IsZero() || p.Asked.IsZero() || p.ExpiresIn < left || p.ExpiresIn > labelTTL {
			return fmt.Errorf("Inspect shows %+v, want since when, when it asked, and what is left of %v", p, labelTTL)
		}
		return nil
	})
	return p
}

// What a lease says of itself is written after its first renewal, and removed after its release.
// Names, labels and prefixes survive what would have a meaning for SQL.
func TestPostgresLabels(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, looker := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	base := step.LockName(t) + "'\\\"; drop table x; --%/"
	names := map[string]locker.Lease{}
	for i, text := range []string{"me, OPS-118", `'); drop table "x"; --\`, strings.Repeat("ü", 100), "日本 🔒 \u202e"} {
		name := fmt.Sprint(base, i, "é")
		names[text] = step.Acquire(t, l, name, locker.WithHolder(text), locker.WithTTL(labelTTL))
	}
	first := step.Acquire(t, l, base+"short", locker.WithTTL(labelTTL))
	if p := holderOf(t, looker, first.Name()); p.Holder != locker.DefaultHolder() || p.Token != 0 {
		t.Errorf("a new lease is shown as %+v, want the application's name %q and no token", p, locker.DefaultHolder())
	}
	step.Release(t, first)
	for text, lease := range names {
		described(t, looker, lease, text)
	}
	listed := map[string]string{}
	for one, err := range locker.List(t.Context(), looker, base, 0) {
		if err != nil {
			t.Fatalf("List(%q) = %v", base, err)
		}
		listed[one.Name] = one.Holder.Holder
	}
	if len(listed) != len(names) {
		t.Errorf("List(%q) shows %q", base, listed)
	}
	for text, lease := range names {
		if listed[lease.Name()] != text {
			t.Errorf("List shows %q at %q, want %q", listed[lease.Name()], lease.Name(), text)
		}
	}
	silent := step.Acquire(t, l, base+"silent", locker.WithTTL(labelTTL), locker.WithHolder("-"))
	step.Eventually(t, itest.ShortWait, func() error {
		if p := holderOf(t, looker, silent.Name()); p.Token != silent.Token() || p.Holder != "" || !p.Asked.IsZero() {
			return fmt.Errorf("a lease that says nothing is shown as %+v", p)
		}
		return nil
	})
	young := step.Acquire(t, l, base+"young", locker.WithTTL(labelTTL))
	var last error // the name of that one is unknown
	for _, err := range locker.List(t.Context(), looker, base, 0) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "1 locks") {
		t.Errorf("List below a prefix, with a lock whose name is unknown, ends with %v", last)
	}
	step.Release(t, young)
	step.Release(t, silent)
	for _, lease := range names {
		step.Release(t, lease)
	}
	step.Eventually(t, itest.ShortWait, func() error {
		if n := admin[int](t, s, "select count(*) from locker.locker_lease"); n != 0 {
			return fmt.Errorf("%d rows are left", n)
		}
		return nil
	})
}

// A label goes with a lease from its waiter's connection to the shared one, and waiters have theirs.
func TestPostgresLabelsMove(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l, other, looker, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(labelTTL), locker.WithHolder("me"))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(labelTTL), locker.WithHolder("you"))
	described(t, looker, lease, "me")
	step.Eventually(t, itest.ShortWait, func() error {
		s, err := locker.Inspect(t.Context(), looker, name, locker.Look{Waiters: 5})
		if err == nil && (len(s.Waiters) != 1 || s.Waiters[0].Holder != "you") {
			err = fmt.Errorf("Inspect shows the waiters %+v, want you", s.Waiters)
		}
		return err
	})
	before := holderOf(t, looker, name)
	step.Release(t, lease)
	lease = waiter.Granted(t, itest.ShortWait)
	onWaiter := holderOf(t, looker, name)
	if onWaiter.Holder != "you" || onWaiter.Session == before.Session {
		t.Errorf("after the grant Inspect shows %+v, want you, on another session than %s", onWaiter, before.Session)
	}
	moved := described(t, looker, lease, "you")
	if moved.Session == onWaiter.Session {
		t.Errorf("the lease has not moved from session %s", moved.Session)
	}
	if n := admin[int](t, s, "select count(*) from locker.locker_lease"); n != 1 {
		step.Eventually(t, itest.ShortWait, func() error {
			if n := admin[int](t, s, "select count(*) from locker.locker_lease"); n != 1 {
				return fmt.Errorf("%d rows, want one: that of the waiter's connection is removed", n)
			}
			return nil
		})
	}
	step.Release(t, lease)
}

// Without the table, or when it goes while Lockers are open, everything works, and less is shown.
// Rows of connections that have ended are removed after a day.
func TestPostgresLabelsWithoutTheTable(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	t.Cleanup(func() { s.exec(t, "drop schema if exists locker cascade") })
	l, looker, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	s.exec(t, "insert into locker.locker_lease (key, presence, name, ttl, label, written) values (1, 2, 'old', '1 s', '', now() - interval '2 days'), (1, 3, 'new', '1 s', '', now())")
	lease := step.Acquire(t, l, name, locker.WithTTL(labelTTL))
	described(t, looker, lease, locker.DefaultHolder())
	step.Eventually(t, itest.ShortWait, func() error {
		if rest := admin[string](t, s, "select string_agg(name, ' ' order by name) from locker.locker_lease where key = 1"); rest != "new" {
			return fmt.Errorf("the rows %q are left of new and old", rest)
		}
		return nil
	})
	s.exec(t, "insert into locker.locker_lease (key, presence, name, token, since, ttl, label) select key, presence, repeat(E'\\x01', 1000), -1, 'infinity', '178000000 years', repeat(E'\\x1b', 1000000) from locker.locker_lease where key <> 1"+
		" on conflict (key, presence) do update set name = excluded.name, token = excluded.token, ttl = excluded.ttl, label = excluded.label")
	if p := holderOf(t, looker, name); len(p.Holder) > locker.MaxHolder || strings.Contains(p.Holder, "\x1b") {
		t.Errorf("Inspect shows the holder %q", p.Holder)
	}
	s.exec(t, "drop table locker.locker_lease")
	if p := holderOf(t, looker, name); p.Holder != locker.DefaultHolder() || p.Token != 0 {
		t.Errorf("without the table the holder is %+v", p)
	}
	next := step.Acquire(t, l, name+"2", locker.WithTTL(labelTTL))
	time.Sleep(labelTTL)
	step.WantLive(t, lease, looker)
	step.Release(t, next)
	step.Release(t, lease)
	again := step.Acquire(t, step.CloseAtEnd(t, s.open(t)), name, locker.WithTTL(labelTTL)) // which doesn't make the table
	time.Sleep(labelTTL / 2)
	step.Release(t, again)
}

// Each connection is named, unless the URL names it, or asks for no labels.
func TestPostgresApplicationName(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	for rawURL, want := range map[string]string{
		s.URL:                                 "locker " + locker.DefaultHolder(),
		s.with("application_name", "billing"): "billing",
		s.with("labels", "false"):             "locker",
	} {
		l := itest.OpenURL(t, itest.Changed(rawURL, func(*url.URL) {}))
		lease := step.Acquire(t, l, step.LockName(t))
		pid := holderOf(t, l, lease.Name()).Session
		if got := admin[string](t, s, "select application_name from pg_stat_activity where pid = $1::text::int", pid); got != want[:min(len(want), 63)] {
			t.Errorf("the connection is named %q, want %q", got, want)
		}
		step.Release(t, lease)
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

// A list of 10,000 locks that have rows. (1 s is the aim; a busy machine gets more.)
func TestPostgresListOfMany(t *testing.T) {
	itest.NeedServers(t)
	s := Standalone(t)
	s.clear(t)
	n := min(10_000, admin[int](t, s, "select current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int / 2 - 200"))
	l, looker, base := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	var leases []locker.Lease
	for i := range n {
		leases = append(leases, step.Acquire(t, l, fmt.Sprint(base, "/", i), locker.WithTTL(6*time.Second)))
	}
	statements := func() int64 {
		return admin[int64](t, s, "select coalesce(sum(calls), 0)::int8 from pg_stat_statements where query like 'INSERT INTO%locker_lease%'")
	}
	step.Eventually(t, time.Minute, func() error {
		if rows := admin[int](t, s, "select count(*) from locker.locker_lease"); rows < n {
			return fmt.Errorf("%d rows, want %d", rows, n)
		}
		return nil
	})
	t.Logf("%d rows by %d statements, which took %s", n, statements(),
		admin[string](t, s, "select format('%s ms at most, %s ms on the average', max(max_exec_time)::numeric(10,2), avg(mean_exec_time)::numeric(10,2)) from pg_stat_statements where query like 'INSERT INTO%locker_lease%'"))
	began := time.Now()
	listed := 0
	ctx, cancel := context.WithTimeout(t.Context(), itest.ShortWait)
	defer cancel()
	for one, err := range locker.List(ctx, looker, base+"/", 0) {
		if err != nil || !strings.HasPrefix(one.Name, base) || one.Holder.Holder != locker.DefaultHolder() {
			t.Fatalf("List shows %+v, %v", one, err)
		}
		listed++
	}
	t.Logf("a list of %d took %v", listed, time.Since(began))
	if listed != n {
		t.Errorf("List shows %d locks, want %d", listed, n)
	}
	step.Race(t, func() error {
		for _, lease := range leases {
			if err := lease.Release(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
}
