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
type fakeRow struct {
	key, presence, name, token, holder, breach string
	by                                         *fakeConn // who has written it
}

var (
	fakeLeaseRow  = regexp.MustCompile(`\('(-?\d+)'::bigint, (\d+)::bigint, '([0-9a-f]*)', (\d+|NULL)::bigint, (\d+|NULL)::bigint, (\d+)::bigint, '([0-9a-f]*)'\)`)
	fakeLeaseID   = regexp.MustCompile(`\('(-?\d+)'::bigint, (\d+)::bigint\)`)
	fakeBroken    = regexp.MustCompile(`^SELECT key, presence, token, .* WHERE presence = (\d+) AND breach IS NOT NULL$`)
	fakePresences = regexp.MustCompile(`presence IN \((\d+(?:, \d+)*)\)$`)
)

// changeLeases executes a statement about the table of leases.
func (f *fake) changeLeases(c *fakeConn, sql string) {
	text := func(digits string) string {
		b, _ := hex.DecodeString(digits)
		return string(b)
	}
	for _, m := range fakeLeaseRow.FindAllStringSubmatch(sql, -1) {
		f.leases[m[1]+"/"+m[2]] = fakeRow{m[1], m[2], text(m[3]), strings.TrimPrefix(m[4], "NULL"), driver.ParseLabel(text(m[7])).Holder, "", c}
	}
	if m := fakePresences.FindStringSubmatch(sql); m != nil {
		maps.DeleteFunc(f.leases, func(_ string, r fakeRow) bool { return slices.Contains(strings.Split(m[1], ", "), r.presence) })
		return
	}
	for _, m := range fakeLeaseID.FindAllStringSubmatch(sql, -1) {
		delete(f.leases, m[1]+"/"+m[2])
	}
}

// broken answers a look for breaches.
func (f *fake) broken(presence string) (rows [][]string) {
	for _, r := range f.leases {
		if r.presence == presence && r.breach != "" {
			rows = append(rows, []string{r.key, r.presence, r.token, hex.EncodeToString([]byte(r.breach))})
		}
	}
	return rows
}

// holds reports whether the session that has written a row has the lock.
func (f *fake) holds(r fakeRow) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks[r.key] == r.by
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
