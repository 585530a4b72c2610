//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// A lock file has two slots, one disk block apart. A slot holds a record of one grant, with a
// checksum. The newest valid record counts, and the next record overwrites the other slot. So a
// write that a crash of the machine cuts off or tears destroys nothing that was granted: its own
// grant waits for the end of the write, and the previous record is in the other slot. A file
// appears under its name with two valid records of the token 0. So a file without a valid record is
// damaged, not new, and its last token is unknown.
//
// The label of the grant follows the record, in the same write, with its token and a checksum of its
// own. So versions without labels read the record, and whatever is in the label's place, the record
// counts. The label has the record's token: one that a version without labels has left in place is
// of an earlier grant, and doesn't count.
const (
	slotSize   = 4096
	slots      = 2
	prefix     = "locker1 token="
	sumSize    = len(" crc=00000000\n")
	recordSize = len(prefix) + len("0000000000000000000 owner= pid=0000000000") + ownerSize + sumSize
	ownerSize  = 32  // of driver.NewOwner
	writeSize  = 512 // of a record with its label: of one sector, so longer than the longest label
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(text string) string {
	return fmt.Sprintf(" crc=%08x\n", crc32.Checksum([]byte(text), castagnoli))
}

// encode returns a record: a line of text, always of the same length.
func encode(token locker.Token, owner string, pid int) []byte {
	text := fmt.Sprintf("%s%019d owner=%-*s pid=%010d", prefix, token, ownerSize, owner, pid)
	return []byte(text + checksum(text))
}

// grant is what a record says.
type grant struct {
	token locker.Token
	owner string
	pid   int
	label string // empty: there is none
}

// labelHead begins the line of a label. It has the token, so that a label counts for its own record.
const labelHead = "label "

// encodeWithLabel returns a record and its label, filled up to one size with zeros.
func encodeWithLabel(token locker.Token, owner string, pid int, label string) []byte {
	b := make([]byte, writeSize)
	n := copy(b, encode(token, owner, pid))
	if label != "" {
		text := labelHead + token.String() + " " + label
		copy(b[n:], text+checksum(text))
	}
	return b
}

// decodeWithLabel returns what a record says, and its label if that is valid. b may be cut off.
func decodeWithLabel(b []byte) (grant, bool) {
	g, ok := decode(b[:min(len(b), recordSize)])
	if !ok {
		return grant{}, false
	}
	line, _, found := bytes.Cut(b[recordSize:], []byte("\n"))
	head := labelHead + g.token.String() + " "
	if text := string(line); found && len(text) >= len(head)+sumSize-1 && strings.HasPrefix(text, head) {
		text, sum := text[:len(text)-sumSize+1], text[len(text)-sumSize+1:]
		if checksum(text) == sum+"\n" {
			g.label = text[len(head):]
		}
	}
	return g, true
}

// decode returns what a record says, and false when the record is not valid.
func decode(record []byte) (grant, bool) {
	if len(record) != recordSize {
		return grant{}, false
	}
	text, sum := string(record[:recordSize-sumSize]), string(record[recordSize-sumSize:])
	if checksum(text) != sum || !strings.HasPrefix(text, prefix) {
		return grant{}, false
	}
	digits, rest, _ := strings.Cut(text[len(prefix):], " ")
	token, err := strconv.ParseInt(digits, 10, 64)
	owner, pid, _ := strings.Cut(strings.TrimPrefix(rest, "owner="), " pid=")
	g := grant{token: locker.Token(token), owner: strings.TrimSpace(owner)}
	g.pid, _ = strconv.Atoi(pid)
	return g, err == nil && token >= 0
}

// blankFile is the content of a new lock file.
func blankFile() []byte {
	content := make([]byte, (slots-1)*slotSize+writeSize) // so that a grant doesn't change the size
	record := encode(0, "", os.Getpid())
	for i := range slots {
		copy(content[i*slotSize:], record)
	}
	return content
}

// recordFile is a lock file, or a test's model of one.
type recordFile interface {
	io.ReaderAt
	Name() string
	writeSynced(b []byte, at int64) error // returns nil when b is on the disk
	syncEarlier() error                   // returns nil when all that can be read is on the disk
}

// newest returns the last token of a lock file and its slot.
func newest(f recordFile) (last locker.Token, slot int, err error) {
	last = -1
	record := make([]byte, recordSize)
	for i := range slots {
		n, err := f.ReadAt(record, int64(i)*slotSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		if g, ok := decode(record[:n]); ok && g.token > last {
			last, slot = g.token, i
		}
	}
	if last < 0 {
		return 0, 0, fmt.Errorf("lock file %s is damaged: its last token can't be read, so no larger one can be granted; "+
			"when nobody holds the lock, move the file away, and tokens go on from the clock", f.Name())
	}
	return last, slot, nil
}

// next is the token after last. The clock keeps tokens increasing when somebody has moved the file
// away, and the last token does when the clock was set back.
func next(last locker.Token, now time.Time) (locker.Token, error) {
	if last == math.MaxInt64 {
		return 0, errors.New("the last token was the largest there is")
	}
	return max(last+1, locker.Token(now.UnixMicro())), nil
}

// mint returns a new token when it is on the disk, together with the label. Only the holder of f's
// lock may call it. syncDir writes the file's directory entry to the disk. The first holder needs
// that, because another process may have created the file.
func mint(f recordFile, owner, label string, syncDir func() error) (locker.Token, error) {
	last, slot, err := newest(f)
	if err != nil {
		return 0, err
	}
	if last == 0 {
		if err := syncDir(); err != nil {
			return 0, err
		}
	}
	token, err := next(last, time.Now())
	if err != nil {
		return 0, fmt.Errorf("lock file %s: %w", f.Name(), err)
	}
	// Where writing and syncing are two calls, a process that was killed between them has left a record
	// that isn't on the disk. The other slot, which is overwritten now, is the only one there.
	if err := f.syncEarlier(); err != nil {
		return 0, err
	}
	at := int64(slots-1-slot) * slotSize
	if err := f.writeSynced(encodeWithLabel(token, owner, os.Getpid(), label), at); err != nil {
		// The record may be readable although it isn't on the disk. Then the next record would
		// overwrite the other slot, which is the only one on the disk. So the record must not stay
		// readable.
		_ = f.writeSynced(make([]byte, recordSize), at)
		return 0, err
	}
	return token, nil
}
