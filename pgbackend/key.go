package pgbackend

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// key identifies a lock in the database's lock table: 64 bits of a hash of its name. Two names with
// one key are not to be expected (of a million names one pair, in one of 37 million such sets). But
// a process that used both would wait for itself, so a Locker that is asked for both refuses the
// second: [ErrCollision].
//
// Postgres has two spaces of advisory locks, of keys of 64 bits and of pairs of 32. The lock itself
// is in the first, its gate is the pair of the same bits in the second: so a gate never is another
// name's lock.
type key int64

// keyOf hashes prefix and text, which is a name or what textOf makes of it, and the schema unless
// it is the usual one: another schema has its own tokens, so it has its own locks. None of the
// three contains a zero byte, so no two combinations are hashed alike.
func keyOf(schema, prefix, text string) key {
	text = prefix + "\x00" + text
	if schema != defaultSchema {
		text += "\x00" + schema
	}
	h := sha256.Sum256([]byte(text))
	return key(binary.BigEndian.Uint64(h[:8])) //nolint:gosec // all 64 bits, whatever their sign
}

// textOf is what is hashed, and written in the table of leases, for a slot of a name: no name has a
// line feed. For the lock it is the name.
func textOf(name string, slot int) string {
	if slot == 0 {
		return name
	}
	return name + "\n" + kit.SlotText(slot)
}

// maxText is the longest text of textOf, in bytes.
const maxText = locker.MaxName + len("\n1000")

// parseText reads what textOf has written. It is not ok for any other text.
func parseText(text string) (name string, slot int, ok bool) {
	name, number, isSlot := strings.Cut(text, "\n")
	if isSlot {
		if slot, ok = kit.ParseSlot(number); !ok {
			return "", 0, false
		}
	}
	return name, slot, locker.ValidName(name) == nil
}

// String is the key as people see it.
func (k key) String() string { return strconv.FormatInt(int64(k), 10) }

// lock is the key as SQL, for the functions that take one number. It is in quotes, because without
// them the smallest number of a type isn't a number of that type.
func (k key) lock() string { return fmt.Sprintf("'%d'::bigint", int64(k)) }

// gate is the key as SQL, for the functions that take two numbers.
func (k key) gate() string { return pair(int32(k>>32), int32(k)) } //nolint:gosec // its two halves

func pair(a, b int32) string { return fmt.Sprintf("'%d'::integer, '%d'::integer", a, b) }

// Pairs of 32 bits that are no gates begin with this number. Below it, 0 is the turn to make the
// objects, or to move the sequence on (see sequence.go), and the OID of the sequence is the mark of
// the connections that take its values; any other is the presence lock of one connection.
const ownSpace = 0x6c6f636b // "lock"

// presence is the presence lock of a connection as SQL: the server's session exists as long as
// somebody has the lock.
func presence(number uint32) string { return pair(ownSpace, int32(number)) } //nolint:gosec // any 32 bits

// checkSchema refuses what Postgres would cut or refuse.
func checkSchema(schema string) error {
	const longest = 63 // bytes of an identifier; longer ones are cut
	if schema == "" || len(schema) > longest || !utf8.ValidString(schema) || strings.ContainsFunc(schema, unicode.IsControl) {
		return fmt.Errorf("%w: schema: want 1 to %d bytes of UTF-8 without control characters, for example %q", locker.ErrOption, longest, defaultSchema)
	}
	return nil
}
