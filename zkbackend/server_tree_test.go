package zkbackend_test

import (
	"fmt"
	"path"
	"slices"
)

// znode is a node of the tests' servers.
type znode struct {
	czxid, mzxid int64
	version      int32
	owner        int64 // the session of an ephemeral one
	next         int32 // sequence number
	children     []string
	data         string
}

type code int32

const (
	ok         code = 0
	noNode     code = -101
	noAuth     code = -102
	badVersion code = -103
	nodeExists code = -110
	notEmpty   code = -111
	expired    code = -112
	authFailed code = -115
)

// tree is what the servers agree on.
type tree struct {
	zxid  int64
	nodes map[string]*znode
	data  map[string]string // of nodes that are the servers' own
	undo  []func()          // of the last changes, for a request that fails in the middle
}

func newTree() *tree { return &tree{nodes: map[string]*znode{"/": {}}} }

func (t *tree) create(name string, flags int32, session int64) (string, code) {
	parent := t.nodes[path.Dir(name)]
	if parent == nil {
		return "", noNode
	}
	if flags&2 != 0 && flags < 4 {
		name += fmt.Sprintf("%010d", parent.next)
		parent.next++
		t.undo = append(t.undo, func() { parent.next-- })
	}
	if t.nodes[name] != nil {
		return "", nodeExists
	}
	z := &znode{czxid: t.zxid, mzxid: t.zxid}
	if flags&1 != 0 && flags < 4 {
		z.owner = session
	}
	t.nodes[name] = z
	parent.children = append(parent.children, path.Base(name))
	t.undo = append(t.undo, func() { t.remove(name) })
	return name, ok
}

func (t *tree) remove(name string) code {
	z := t.nodes[name]
	switch {
	case z == nil:
		return noNode
	case len(z.children) > 0:
		return notEmpty
	}
	delete(t.nodes, name)
	parent := t.nodes[path.Dir(name)]
	parent.children = slices.DeleteFunc(parent.children, func(c string) bool { return c == path.Base(name) })
	t.undo = append(t.undo, func() {
		t.nodes[name] = z
		parent.children = append(parent.children, path.Base(name))
	})
	return ok
}

func (t *tree) set(name string, version int32) code {
	z := t.nodes[name]
	switch {
	case z == nil:
		return noNode
	case version != -1 && version != z.version:
		return badVersion
	}
	mzxid := z.mzxid
	z.version++
	z.mzxid = t.zxid
	t.undo = append(t.undo, func() {
		z.version--
		z.mzxid = mzxid
	})
	return ok
}
