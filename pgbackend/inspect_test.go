package pgbackend_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/pgbackend"
)

// entry is a row about a key as the statement returns it. asked is in µs.
func entry(k pgbackend.Key, space, pid int, granted bool, asked string) []string {
	truth := map[bool]string{true: "t", false: "f"}
	high, low := strconv.FormatUint(uint64(uint32(k>>32)), 10), strconv.FormatUint(uint64(uint32(k)), 10)
	return []string{high, low, strconv.Itoa(space), strconv.Itoa(pid), truth[granted], asked}
}

func sessions(parties []locker.Party) (list []string) {
	for _, p := range parties {
		list = append(list, p.Session)
	}
	return list
}

func TestInspectReadsTheLockTable(t *testing.T) {
	const k = pgbackend.Key(-2)
	free := pgbackend.Inspect(k, nil, 3)
	if free.Holder != nil || free.Waiting != 0 || free.Key != "-2" {
		t.Errorf("Inspect of a free lock = %+v", free)
	}
	rows := [][]string{
		entry(k, 2, 30, false, "2000000"), // at the gate
		entry(k, 2, 40, false, ""),
		entry(k, 1, 20, false, "5000000"), // past the gate
		entry(k, 2, 20, true, ""),
		entry(k, 1, 10, true, ""),
	}
	s := pgbackend.Inspect(k, rows, 2)
	if s.Holder == nil || s.Holder.Session != "10" || s.Waiting != 3 || !slices.Equal(sessions(s.Waiters), []string{"20", "30"}) {
		t.Errorf("Inspect = %+v with holder %+v, want 10, and of 3 waiters 20 and 30", s, s.Holder)
	}
	if at := s.Waiters[0].Asked; !at.Equal(time.Unix(5, 0)) {
		t.Errorf("the first waiter has asked at %v", at)
	}
	// While a lease moves, both connections have the lock.
	moving := [][]string{entry(k, 1, 20, true, ""), entry(k, 1, 10, true, ""), entry(k, 2, 20, true, "")}
	if s := pgbackend.Inspect(k, moving, 2); s.Holder == nil || s.Waiting != 0 {
		t.Errorf("Inspect of a lease that moves = %+v", s)
	}
	if s := pgbackend.Inspect(k, [][]string{entry(k, 2, 20, true, "")}, 2); s.Holder != nil || s.Waiting != 0 {
		t.Errorf("Inspect of a gate that is open to somebody = %+v, want a free lock", s)
	}
}

// What other programs lock is not listed, unless a Locker waits for it.
func TestListLeavesOthersAlone(t *testing.T) {
	presence := func(pid int) []string {
		return entry(pgbackend.Key(int64(pgbackend.OwnSpace)<<32|int64(pid)*7), 2, pid, true, "")
	}
	all := pgbackend.List([][]string{
		presence(1), presence(2),
		entry(100, 1, 1, true, ""),
		entry(100, 1, 2, false, ""), entry(100, 2, 2, true, ""),
		entry(200, 2, 2, true, ""),  // a gate alone
		entry(300, 1, 9, true, ""),  // another program's
		entry(400, 1, 9, true, ""),  // the same, and a Locker waits
		entry(400, 1, 1, false, ""), // for it
		entry(500, 2, 9, true, ""),
		entry(pgbackend.Key(int64(pgbackend.OwnSpace)<<32|5), 1, 1, true, ""), // a lock whose key begins like that
	}, 0, func(k pgbackend.Key) string { return map[pgbackend.Key]string{100: "a"}[k] })
	keys := make(map[string]string)
	for _, s := range all {
		keys[s.Key] = s.Name
		if s.Holder == nil {
			t.Errorf("List shows %+v without a holder", s)
		}
	}
	own := strconv.FormatInt(int64(pgbackend.OwnSpace)<<32|5, 10)
	if _, listed := keys[own]; len(all) != 3 || keys["100"] != "a" || keys["400"] != "" || !listed {
		t.Errorf("List shows %v, want 100 (a), 400 and %s", keys, own)
	}
}

// leaseRow is a row of the table of leases as the statement returns it.
func leaseRow(k pgbackend.Key, presence int, token, since, ttl, name, label string) []string {
	return []string{strconv.FormatInt(int64(k), 10), strconv.Itoa(presence), token, since, ttl, hex.EncodeToString([]byte(name)), hex.EncodeToString([]byte(label)), "f", ""}
}

// seen is an entry with what the server shows of its session: the name of the program, and how long
// it has been idle.
func seen(row []string, program, idle string) []string { return append(row, program, idle) }

// A row describes who has the lock or waits for it on the connection whose presence it names, and
// nobody else.
func TestInspectReadsRows(t *testing.T) {
	const k = pgbackend.Key(77)
	presence := func(pid, number int) []string {
		return entry(pgbackend.Key(int64(pgbackend.OwnSpace)<<32|int64(number)), 2, pid, true, "")
	}
	const label = "1795221171926;00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 me"
	rows := [][]string{
		presence(10, 1<<31+5), presence(20, 1<<31+6), presence(30, 1<<31+7),
		presence(10, 0), // it has the turn for a moment
		seen(entry(k, 1, 10, true, ""), "locker host/1/x", "1500"),
		seen(entry(k, 1, 20, false, ""), "locker host/2/y", ""),
		seen(entry(k, 2, 30, false, "7000000"), "billing", ""),
		seen(entry(k, 2, 40, false, ""), "locker", ""),
		leaseRow(k, 1<<31+5, "81723", "5000000", "30000", "a", label),
		leaseRow(k, 1<<31+6, "", "", "30000", "a", "1795221171926 you"),
		leaseRow(k, 1<<31+9, "99", "5000000", "30000", "a", "1795221171926 of a connection that has ended"),
		leaseRow(k+1, 1<<31+7, "99", "5000000", "30000", "b", "1795221171926 of another lock"),
		leaseRow(k, -1, "99", "", "", "a", "nonsense"),
		presence(20, 16400), // the mark of another schema
	}
	s := pgbackend.Inspect(k, rows, 5)
	if s.Holder == nil || s.Waiting != 3 {
		t.Fatalf("Inspect = %+v", s)
	}
	want := locker.Party{
		Token: 81723, Holder: "me", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Asked: time.UnixMilli(1795221171926).UTC(),
		Since: time.UnixMicro(5000000).UTC(), ExpiresIn: 28500 * time.Millisecond, Session: "10",
	}
	if *s.Holder != want {
		t.Errorf("the holder is %+v, want %+v", *s.Holder, want)
	}
	var holders []string
	for _, p := range s.Waiters {
		holders = append(holders, p.Holder)
		if p.Token != 0 || p.ExpiresIn != 0 {
			t.Errorf("the waiter %+v has a token, or expires", p)
		}
	}
	if !slices.Equal(holders, []string{"you", "billing", ""}) {
		t.Errorf("the waiters are %q, want you, the program's name, and nothing", holders)
	}
	broken := rows[8] // the holder's row
	broken[7], broken[8] = "t", hex.EncodeToString([]byte(driver.FormatBreach(locker.Breach{By: "bob", Reason: "hangs"})))
	if p := pgbackend.Inspect(k, rows, 0).Holder; p == nil || p.Broken == nil || p.Broken.By != "bob" || p.Broken.Reason != "hangs" {
		t.Errorf("the holder whose row has a breach is %+v", p)
	}
	broken[8] = "" // of an empty text
	if p := pgbackend.Inspect(k, rows, 0).Holder; p == nil || p.Broken == nil {
		t.Errorf("the holder whose row has an empty breach is %+v", p)
	}
	if !s.Waiters[1].Asked.Equal(time.Unix(7, 0)) {
		t.Errorf("a waiter has asked at %v, want what the server says", s.Waiters[1].Asked)
	}
}

// A name in a row counts only if it has that key. A list below a prefix says if there are locks
// whose names nobody has written.
func TestListFindsNamesInRows(t *testing.T) {
	f := newFake(t)
	f.leases = make(map[string]fakeRow)
	l := open(t, f)
	keyOf := func(name string) pgbackend.Key { return pgbackend.KeyOf("locker", "locker:", name) }
	elsewhere := pgbackend.KeyOf("locker", "other:", "jobs/3")
	table := [][]string{entry(pgbackend.Key(int64(pgbackend.OwnSpace)<<32|1<<31|5), 2, 1, true, "")}
	for _, k := range []pgbackend.Key{keyOf("jobs/1"), keyOf("jobs/2"), keyOf("other"), elsewhere} {
		table = append(table, entry(k, 1, 1, true, ""))
	}
	table = append(table,
		leaseRow(keyOf("jobs/1"), 1<<31+5, "1", "", "", "jobs/1", ""),
		leaseRow(keyOf("jobs/2"), 1<<31+8, "", "", "", "jobs/2", ""), // of a connection that has ended
		leaseRow(keyOf("other"), 1<<31+5, "1", "", "", "other", ""),
		leaseRow(elsewhere, 1<<31+5, "1", "", "", "jobs/3", ""))
	f.change(func(f *fake) { f.table = table })
	names := func(prefix string) (names []string, failed error) {
		for s, err := range locker.List(t.Context(), l, prefix, 0) {
			if failed = err; err == nil {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		return names, failed
	}
	if got, err := names(""); err != nil || !slices.Equal(got, []string{"", "jobs/1", "jobs/2", "other"}) {
		t.Errorf("List shows %q, %v", got, err)
	}
	if got, err := names("jobs/"); err != nil || !slices.Equal(got, []string{"jobs/1", "jobs/2"}) {
		t.Errorf("List of jobs/ shows %q, %v, want the two whose names have these keys", got, err)
	}
	f.change(func(f *fake) { f.table = append(table, entry(keyOf("new"), 1, 1, true, "")) })
	if got, err := names("jobs/"); !errors.Is(err, locker.ErrNoInspector) || !slices.Equal(got, []string{"jobs/1", "jobs/2"}) {
		t.Errorf("List of jobs/ shows %q, %v, want the two, and an error because one name is unknown", got, err)
	}
}

// Without the table, what the lock table has is shown, and the table isn't read again.
func TestInspectWithoutTheTable(t *testing.T) {
	f := newFake(t)
	f.leases = make(map[string]fakeRow)
	l := open(t, f)
	k := pgbackend.KeyOf("locker", "locker:", "a")
	f.change(func(f *fake) {
		f.table = [][]string{seen(entry(k, 1, 9, true, ""), "locker host/1/x", "0")}
		f.before = func(sql string) string {
			if strings.Contains(sql, "FROM pg_locks") && strings.Contains(sql, "locker_lease") {
				return "executed, then 42P01 relation does not exist"
			}
			return ""
		}
	})
	for range 3 {
		s, err := locker.Inspect(t.Context(), l, "a", locker.Look{})
		if err != nil || s.Holder == nil || s.Holder.Holder != "host/1/x" || s.Holder.Token != 0 {
			t.Errorf("Inspect = %+v, %v, want the holder by the name of its program", s, err)
		}
	}
	if n := f.statements("encode(convert_to("); n != 1 {
		t.Errorf("the table was read %d times, want once", n)
	}
}
