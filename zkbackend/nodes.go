package zkbackend

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// A lock is a node below the root, whose children are those who hold it and wait for it:
//
//	ROOT/NAME/OWNER-0000000012
//
// ZooKeeper refuses some characters in paths, and Java counts others as two; so in a name all bytes that aren't
// printable ASCII are written as %XX, and with them those that mean something in a path, and the sign itself.

const hexDigits = "0123456789ABCDEF"

func escape(name string) string {
	if name == "." || name == ".." {
		return "%2E" + name[1:]
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(rune(c)) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

func plain(c rune) bool { return '!' <= c && c <= '~' && c != '/' && c != '%' }

// node is a child of a lock's node.
type node struct {
	name     string
	owner    string
	sequence int64
}

// parseNode reads the name of a node. Others than those of this package are nobody's business.
func parseNode(name string) (n node, ok bool) {
	const ownerSize = 32
	if len(name) < ownerSize+2 || name[ownerSize] != '-' {
		return n, false
	}
	sequence, err := strconv.ParseInt(name[ownerSize+1:], 10, 64)
	return node{name, name[:ownerSize], sequence}, err == nil
}

// parseNodes reads a list of names, and puts it in order.
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

// lastSequence is where ZooKeeper stops to count: the numbers that it gives then go on below zero, or repeat.
const lastSequence = 1<<31 - 1<<20

// overflows reports whether the sequence numbers of nodes may not be in the order in which these were made. That takes two
// thousand million acquisitions without a minute's pause in which the lock's node could have been removed.
func overflows(nodes []node) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return n.sequence < 0 || n.sequence >= lastSequence })
}

// checkRoot refuses a chroot that ZooKeeper would.
func checkRoot(root string) error {
	refuse := func(why string) error { return fmt.Errorf("%w: the chroot %s", locker.ErrOption, why) }
	if !strings.HasPrefix(root, "/") || root == "/" {
		return refuse("is a path that begins with a slash, and not the root")
	}
	if !utf8.ValidString(root) {
		return refuse("is not UTF-8")
	}
	for i, part := range strings.Split(root[1:], "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return refuse("has a part that is empty, or dots")
		case i == 0 && part == "zookeeper":
			return refuse("is ZooKeeper's own")
		case strings.ContainsFunc(part, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
		}):
			return refuse("has a character that ZooKeeper refuses")
		}
	}
	return nil
}
