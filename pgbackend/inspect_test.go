package pgbackend_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencedlock/locker"
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
