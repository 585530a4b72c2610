package pgbackend_test

import (
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fencedlock/locker/driver"
)

// fakeRow is a row of the table of leases.
type fakeRow struct{ key, presence, name, token, holder string }

var (
	fakeLeaseRow  = regexp.MustCompile(`\('(-?\d+)'::bigint, (\d+)::bigint, '([0-9a-f]*)', (\d+|NULL)::bigint, (\d+|NULL)::bigint, (\d+)::bigint, '([0-9a-f]*)'\)`)
	fakeLeaseID   = regexp.MustCompile(`\('(-?\d+)'::bigint, (\d+)::bigint\)`)
	fakePresences = regexp.MustCompile(`presence IN \(([\d ]+)\)$`)
)

// changeLeases executes a statement about the table of leases.
func (f *fake) changeLeases(sql string) {
	text := func(digits string) string {
		b, _ := hex.DecodeString(digits)
		return string(b)
	}
	for _, m := range fakeLeaseRow.FindAllStringSubmatch(sql, -1) {
		f.leases[m[1]+"/"+m[2]] = fakeRow{m[1], m[2], text(m[3]), strings.TrimPrefix(m[4], "NULL"), driver.ParseLabel(text(m[7])).Holder}
	}
	if m := fakePresences.FindStringSubmatch(sql); m != nil {
		maps.DeleteFunc(f.leases, func(_ string, r fakeRow) bool { return slices.Contains(strings.Fields(m[1]), r.presence) })
		return
	}
	for _, m := range fakeLeaseID.FindAllStringSubmatch(sql, -1) {
		delete(f.leases, m[1]+"/"+m[2])
	}
}

// written are the rows that say who has a lock or waits for it.
func (f *fake) written() (rows []fakeRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.leases)) {
		rows = append(rows, f.leases[key])
	}
	return rows
}
