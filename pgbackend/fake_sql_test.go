package pgbackend_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedlock/locker/internal/pgsession"
)

// What the fake server understands of the driver's SQL.

var (
	fakeAsks   = regexp.MustCompile(`^SELECT pg_catalog.pg_backend_pid\(\), \d+$`)
	fakeTTL    = regexp.MustCompile(`'idle_session_timeout', '(\d+)'`)
	fakeTCP    = regexp.MustCompile(`'tcp_user_timeout', '(\d+)'`)
	fakeWait   = regexp.MustCompile(`^SELECT CASE WHEN set_config\(.*pg_advisory_lock\('(-?\d+)'::bigint`)
	fakeStep1  = regexp.MustCompile(`^SELECT CASE WHEN pg_advisory_lock_shared\('(-?\d+)'::bigint\)`)
	fakeStep2  = regexp.MustCompile(`pg_try_advisory_lock_shared\('(-?\d+)'::bigint\)`)
	fakeStep3  = regexp.MustCompile(`^SELECT pg_advisory_unlock_shared\('(-?\d+)'::bigint\)$`)
	fakeStep4  = regexp.MustCompile(`^SELECT CASE WHEN pg_try_advisory_lock\('(-?\d+)'::bigint\) THEN pg_advisory_unlock_shared`)
	fakeStep5  = regexp.MustCompile(`^SELECT pg_advisory_unlock\('(-?\d+)'::integer, '(-?\d+)'::integer\)$`)
	fakeUnlock = regexp.MustCompile(`pg_advisory_unlock(_shared)?\('(-?\d+)'::bigint\)`)
	fakeReach  = regexp.MustCompile(`ELSE reached END THEN setval\(.*?, reached \+ (\d+)\)`)
	fakeCancel = regexp.MustCompile(` ELSE pg_cancel_backend\((\d+)\) END$`)
	fakeBegin  = regexp.MustCompile(`^UPDATE .* SET epoch = (\d+), system = `)
	fakeMove   = regexp.MustCompile(`greatest\(reached, (\d+)\) \+ (\d+)\)`)
)

func yes(b bool) string { return map[bool]string{true: "t", false: "f"}[b] }

// rows is the answer to a message.
func (f *fake) rows(c *fakeConn, sql string) [][]string {
	if m := fakeTTL.FindStringSubmatch(sql); m != nil {
		c.ttl = m[1]
	}
	if all := fakeTCP.FindAllStringSubmatch(sql, -1); all != nil && !f.noTCP {
		c.tcp = all[len(all)-1][1]
	}
	pid := strconv.Itoa(c.pid)
	if rest, found := strings.CutPrefix(sql, "SET LOCAL lock_timeout = "); found {
		_, sql, _ = strings.Cut(rest, "; ")
	}
	sql, onDisk := strings.CutPrefix(sql, pgsession.OnDisk)
	onDisk = onDisk || !c.lazy
	if rows := f.moveStep(c, sql); rows != nil {
		return rows
	}
	switch {
	case strings.HasPrefix(sql, "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery("):
		return [][]string{{pid, yes(f.standby), strconv.Itoa(f.version), map[bool]string{true: "on", false: "off"}[f.readOnly], "100", strconv.Itoa(f.locksPerTx), "0"}}
	case strings.HasPrefix(sql, "SET synchronous_commit = "):
		return nil
	case sql == "-- ping": // by pgx, before it hands a stream over, when its reader hasn't stopped yet
		return nil
	case sql == "show transaction_read_only": // by pgx
		return [][]string{{map[bool]string{true: "on", false: "off"}[f.readOnly || f.standby]}}
	case sql == "SELECT pg_backend_pid()", sql == "BEGIN; SELECT pg_catalog.pg_backend_pid()":
		return [][]string{{pid}}
	case strings.HasPrefix(sql, "SELECT pg_backend_pid(), nextval("):
		f.seq++
		return [][]string{{pid, strconv.Itoa(f.seq)}}
	case fakeAsks.MatchString(sql):
		f.asked = sql
		return [][]string{{pid}}
	case strings.HasPrefix(sql, "SELECT state, query FROM "):
		return [][]string{{"idle", cmp.Or(f.shown, f.asked)}}
	case strings.HasPrefix(sql, "SELECT set_config('lock_timeout'"):
		c.lazy = strings.Contains(sql, "set_config('synchronous_commit', 'off', false)")
		return [][]string{{"", c.ttl, cmp.Or(c.tcp, "0"), yes(f.local)}}
	case strings.HasPrefix(sql, "SELECT o.sequence") && f.missing != nil:
		return [][]string{{"f"}}
	case strings.HasPrefix(sql, "SELECT (SELECT CASE WHEN has_sequence_privilege("):
		return [][]string{append(slices.Clone(f.missing), strconv.Itoa(1+f.promoted))}
	case strings.HasPrefix(sql, "SELECT pg_advisory_xact_lock(") && strings.Contains(sql, "CREATE TABLE"):
		f.missing, f.known, f.raised = nil, f.promoted, f.promoted
		return [][]string{{""}}
	case strings.HasPrefix(sql, "SELECT o.sequence"):
		return [][]string{{"t", "t", "1", "1", "f", "p", "t", yes(f.leases != nil), yes(f.leases != nil), yes(f.leases != nil)}}
	case strings.HasPrefix(sql, "SELECT l.classid"):
		return f.table
	case strings.HasPrefix(sql, "WITH locks AS "), strings.HasPrefix(sql, "SELECT 1 FROM "): // Break, also at once
		return f.marked
	case fakeBroken.MatchString(sql):
		return f.broken(fakeBroken.FindStringSubmatch(sql)[1])
	case strings.Contains(sql, "locker_lease"):
		f.changeLeases(c, sql)
		return nil
	case strings.Contains(sql, "pg_control_system") && f.noEpoch:
		return nil
	case strings.Contains(sql, "pg_control_system"):
		return [][]string{{"70", "5", strconv.Itoa(900 + f.remade), strconv.Itoa(1 + f.promoted), strconv.Itoa(1790000000000000 + c.server), "t", strconv.Itoa(1 + f.raised), "70", "5", strconv.Itoa(900 + f.remade), strconv.Itoa(1 + f.known), f.protocol}}
	case fakeBegin.MatchString(sql):
		n, _ := strconv.Atoi(fakeBegin.FindStringSubmatch(sql)[1])
		f.raised, f.known = n-1, f.promoted
		return nil
	case strings.HasPrefix(sql, "SELECT epoch, system, "):
		return [][]string{{strconv.Itoa(1 + f.raised), "70", "5", strconv.Itoa(900 + f.remade), strconv.Itoa(1 + f.known)}}
	case !onDisk && strings.Contains(sql, "UPDATE ") && strings.Contains(sql, "SET reached = "): // a crash would undo it
		return [][]string{{strconv.Itoa(f.seq), strconv.Itoa(f.reached)}}
	case fakeReach.MatchString(sql): // there is no mark
		n, _ := strconv.Atoi(fakeReach.FindStringSubmatch(sql)[1])
		f.seq = max(f.seq, f.reached+n)
		f.reached = f.seq
		return [][]string{{strconv.Itoa(f.reached), strconv.Itoa(1 + f.raised)}}
	case fakeMove.MatchString(sql):
		m := fakeMove.FindStringSubmatch(sql)
		floor, _ := strconv.Atoi(m[1])
		step, _ := strconv.Atoi(m[2])
		if f.seq <= floor {
			f.seq = max(f.reached, floor) + step
		}
		f.reached = f.seq
		f.seq++
		return [][]string{{strconv.Itoa(f.seq), strconv.Itoa(f.reached)}}
	case strings.HasPrefix(sql, "UPDATE ") && strings.HasSuffix(sql, "SELECT reached FROM \"locker\".locker_epoch"):
		f.reached = f.seq
		return [][]string{{strconv.Itoa(f.reached)}}
	case strings.Contains(sql, "FROM pg_locks"):
		return [][]string{{strconv.Itoa(f.taken + len(f.locks))}}
	case fakeWait.MatchString(sql): // the holder has just given it back
		key := fakeWait.FindStringSubmatch(sql)[1]
		delete(f.locks, key)
		f.waited, f.gates[key] = c, c
		return [][]string{{f.try(c, key), cmp.Or(c.tcp, "0")}}
	case fakeGroup.MatchString(sql):
		return f.group(c, sql)
	case fakeTry.MatchString(sql):
		return [][]string{{"1", f.try(c, fakeTry.FindStringSubmatch(sql)[1])}}
	case strings.Contains(sql, "pg_advisory_unlock_all()"):
		f.free(c)
		return [][]string{{"t"}}
	case strings.HasPrefix(sql, "SELECT pg_advisory_unlock("):
		for _, m := range fakeUnlock.FindAllStringSubmatch(sql, -1) {
			if m[1] != "" {
				f.unshare(c, m[2])
			} else if f.locks[m[2]] == c {
				delete(f.locks, m[2])
				if f.gates[m[2]] == c { // which the same statement gives back
					delete(f.gates, m[2])
				}
			}
		}
		return [][]string{{"0"}}
	case strings.Contains(sql, "pg_terminate_backend"): // who asks has the life of nobody in its way
		f.ended = append(f.ended, c.server)
		return [][]string{{"t"}}
	case strings.HasPrefix(sql, "SELECT pid FROM pg_stat_activity"):
		return f.blockedOn(c.server)
	case fakeCancel.MatchString(sql):
		f.cancel(c.server, fakeCancel.FindStringSubmatch(sql)[1])
		return [][]string{{"t"}}
	}
	panic("the fake server doesn't know this statement: " + sql)
}

// moveStep is the answer to a step of a move (see move.go); nil: it is none.
func (f *fake) moveStep(c *fakeConn, sql string) [][]string {
	switch {
	case fakeStep1.MatchString(sql):
		key := fakeStep1.FindStringSubmatch(sql)[1]
		held := f.locks[key] == c
		f.share(c, key)
		delete(f.locks, key)
		return [][]string{{yes(held)}}
	case fakeStep2.MatchString(sql):
		return [][]string{{yes(f.share(c, fakeStep2.FindStringSubmatch(sql)[1]))}}
	case fakeStep3.MatchString(sql):
		return [][]string{{yes(f.unshare(c, fakeStep3.FindStringSubmatch(sql)[1]))}}
	case fakeStep4.MatchString(sql):
		key := fakeStep4.FindStringSubmatch(sql)[1]
		if !f.lock(c, key) {
			return [][]string{{""}}
		}
		return [][]string{{yes(f.unshare(c, key))}}
	case fakeStep5.MatchString(sql):
		m := fakeStep5.FindStringSubmatch(sql)
		high, _ := strconv.ParseInt(m[1], 10, 32)
		low, _ := strconv.ParseInt(m[2], 10, 32)
		key := fmt.Sprint(high<<32 | int64(uint32(low))) //nolint:gosec // the low half, as it is
		held := f.gates[key] == c
		delete(f.gates, key)
		return [][]string{{yes(held)}}
	}
	return nil
}

func (f *fake) try(c *fakeConn, key string) string {
	if !f.lock(c, key) {
		return ""
	}
	f.seq++
	return fmt.Sprint(f.seq)
}
