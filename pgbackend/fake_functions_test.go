package pgbackend_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The function calls that the fake server knows. A test sees them as text, among the statements:
// pg_try_advisory_lock(7).

// fakeFunctions are the functions by their OID, with the sizes of their results.
var fakeFunctions = map[uint32]struct {
	name string
	size int
}{
	2882: {"pg_try_advisory_lock", 1},
	2884: {"pg_advisory_unlock", 1},
	2885: {"pg_advisory_unlock_shared", 1},
	1574: {"nextval", 8},
	2026: {"pg_backend_pid", 4},
}

var (
	// fakeTry is a request for a lock, as a statement or as a function call.
	fakeTry = regexp.MustCompile(`^(?:SELECT 1, CASE WHEN )?pg_try_advisory_lock\('?(-?\d+)`)
	// fakeGroup is a message for several requests, or for one that has no function call.
	fakeGroup = regexp.MustCompile(`^SELECT (0|i), `)
	fakeItem  = regexp.MustCompile(`\((\d+), (?:'(-?\d+)'|NULL)::bigint\)`)
	// fakeGive is the same for a lock that is given back.
	fakeGive = regexp.MustCompile(`^SELECT 0, |^pg_advisory_unlock(_shared)?\(-?\d+\)$`)
)

// fakeCall is a function call.
type fakeCall struct {
	name, argument string
	size           int // of the result
}

func (c fakeCall) String() string { return c.name + "(" + c.argument + ")" }

func callOf(m *pgproto3.FunctionCall) fakeCall {
	function := fakeFunctions[m.Function]
	c := fakeCall{name: function.name, size: function.size}
	for _, value := range m.Arguments {
		switch len(value) {
		case 4:
			c.argument = fmt.Sprint(binary.BigEndian.Uint32(value))
		case 8:
			c.argument = fmt.Sprint(int64(binary.BigEndian.Uint64(value))) //nolint:gosec // all 64 bits
		}
	}
	return c
}

// answerCall executes a function call.
func (f *fake) answerCall(c *fakeConn, call fakeCall) error {
	what, wait := f.verdict(call.String())
	time.Sleep(wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reply(c, what, nil, func() {
		value := f.result(c, call.name, call.argument)
		c.backend.Send(&pgproto3.FunctionCallResponse{Result: binary.BigEndian.AppendUint64(nil, value)[8-call.size:]})
	}, func() {
		c.backend.Send(&pgproto3.FunctionCallResponse{Result: make([]byte, call.size)})
	})
}

func (f *fake) result(c *fakeConn, name, argument string) uint64 {
	done := false
	switch name {
	case "pg_backend_pid":
		return uint64(c.pid) //nolint:gosec // small
	case "nextval":
		f.seq++
		return uint64(f.seq) //nolint:gosec // small
	case "pg_try_advisory_lock":
		done = f.lock(c, argument)
	case "pg_advisory_unlock":
		if done = f.locks[argument] == c; done {
			delete(f.locks, argument)
		}
	case "pg_advisory_unlock_shared":
		done = f.unshare(c, argument)
	}
	return map[bool]uint64{true: 1}[done]
}

// group is the answer to a message for several requests.
func (f *fake) group(c *fakeConn, sql string) (rows [][]string) {
	gives, takes, _ := strings.Cut(sql, ";")
	if strings.HasPrefix(sql, "SELECT i, ") {
		gives, takes = "", sql
	}
	for _, m := range fakeUnlock.FindAllStringSubmatch(gives, -1) {
		if m[1] != "" {
			f.unshare(c, m[2])
		} else if f.locks[m[2]] == c {
			delete(f.locks, m[2])
		}
	}
	if gives != "" {
		rows = append(rows, []string{"0"})
	}
	for _, m := range fakeItem.FindAllStringSubmatch(takes, -1) {
		value := ""
		if m[2] == "" || f.lock(c, m[2]) {
			f.seq++
			value = strconv.Itoa(f.seq)
		}
		rows = append(rows, []string{m[1], value})
	}
	return rows
}
