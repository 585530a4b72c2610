package zkbackend

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// A lock is a node below the chroot, whose children are the holder and the waiters:
//
//	CHROOT/NAME/OWNER-0000000012
//
// ZooKeeper refuses some characters in paths, and Java counts others as two. So all bytes of a name
// that aren't printable ASCII are written as %XX, and so are those that have a meaning in a path,
// and the percent sign itself. The node of a slot is CHROOT/NAME%sSLOT: no name is written with "%s".

const hexDigits = "0123456789ABCDEF"

const slotMark = "%s"

// dir is the path of the node of a lock, or of a slot.
func (c *chroot) dir(name string, slot int) string {
	if slot != 0 {
		return c.path + "/" + escape(name) + slotMark + kit.SlotText(slot)
	}
	return c.path + "/" + escape(name)
}

// parseDir is the name and the slot of which the node is called text. It is not ok if none is.
func parseDir(text string) (name string, slot int, ok bool) {
	text, number, isSlot := strings.Cut(text, slotMark)
	if isSlot {
		if slot, ok = kit.ParseSlot(number); !ok {
			return "", 0, false
		}
	}
	name, ok = unescape(text)
	return name, slot, ok
}

func escape(name string) string {
	if name == "." || name == ".." {
		return "%2E" + name[1:]
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return !isPlain(r) }) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; isPlain(rune(c)) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// unescape is the name that is written as text, and false if no name is.
func unescape(text string) (string, bool) {
	name, err := url.PathUnescape(text)
	return name, err == nil && escape(name) == text && locker.ValidName(name) == nil
}

func isPlain(c rune) bool { return '!' <= c && c <= '~' && c != '/' && c != '%' }

// node is a child of a lock's node.
type node struct {
	name     string
	owner    string
	sequence int64
}

// parseNode reads the name of a node. It is not ok for nodes that this package has not created,
// which are ignored.
func parseNode(name string) (n node, ok bool) {
	const ownerSize = 32
	if len(name) < ownerSize+2 || name[ownerSize] != '-' {
		return n, false
	}
	sequence, err := strconv.ParseInt(name[ownerSize+1:], 10, 64)
	return node{name, name[:ownerSize], sequence}, err == nil
}

// parseNodes reads a list of names, and sorts the nodes by sequence number.
func parseNodes(names []string) []node {
	nodes := make([]node, 0, len(names))
	for _, name := range names {
		if n, ok := parseNode(name); ok {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.sequence, b.sequence) })
	return nodes
}

// lastSequence is where ZooKeeper's sequence numbers may end: further ones are negative, or repeat.
const lastSequence = 1<<31 - 1<<20

// overflows reports whether the order of the sequence numbers may not be the order in which the
// nodes were created. That takes two thousand million acquisitions without a minute's pause, in
// which the servers would have removed the lock's node.
func overflows(nodes []node) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return n.sequence < 0 || n.sequence >= lastSequence })
}

// checkChroot refuses a chroot that ZooKeeper would refuse.
func checkChroot(path string) error {
	want := func(what string) error {
		return fmt.Errorf("%w: invalid chroot: want %s, for example /billing/locks", locker.ErrOption, what)
	}
	if !strings.HasPrefix(path, "/") || path == "/" {
		return want("a path that begins with a slash, and not the root")
	}
	if !utf8.ValidString(path) {
		return want("UTF-8")
	}
	for i, part := range strings.Split(path[1:], "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return want("no part that is empty, or dots")
		case i == 0 && part == "zookeeper":
			return want("a node outside of /zookeeper, which is ZooKeeper's own")
		case strings.ContainsFunc(part, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
		}):
			return want("no characters that ZooKeeper refuses")
		}
	}
	return nil
}
