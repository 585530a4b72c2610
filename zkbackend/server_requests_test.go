package zkbackend_test

import (
	"fmt"
	"path"
	"slices"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// How the server executes requests, on its nodes.

// do executes a request.
func (s *server) do(c *conn, op string, r *zktest.Reader, w *zktest.Writer) code {
	s.tree.undo = nil
	if slices.Contains([]string{"create", "container", "delete", "set", "multi", "close"}, op) {
		s.tree.zxid++
	}
	switch op {
	case "ping", "auth":
		return ok
	case "close":
		session := c.session
		delete(s.sessions, session) // so that the answer is sent before the connection ends
		s.endSession(session)
		return ok
	case "multi":
		return s.multi(c, r, w)
	case "watches":
		r.Int64()
		for _, name := range r.List() {
			if s.tree.nodes[name] == nil {
				s.tell(c, deleted, name)
			} else {
				c.watches[name] = true
			}
		}
		return ok
	case "sync":
		w.String(r.String())
		return ok
	case "exists", "get", "children":
		return s.look(c, op, r, w)
	}
	return s.write(c, op, r, w)
}

func (s *server) look(c *conn, op string, r *zktest.Reader, w *zktest.Writer) code {
	name, watched := r.String(), r.Bool()
	known := s.tree
	if c.stale != nil {
		known = c.stale
	}
	z := known.nodes[name]
	if z == nil {
		return noNode
	}
	if watched {
		c.watches[name] = true
	}
	switch op {
	case "get":
		w.String(z.data + s.tree.data[name])
	case "children":
		w.Int32(int32(len(z.children)))
		for _, child := range z.children {
			w.String(child)
		}
	}
	writeStat(w, z)
	return ok
}

// write executes one operation that changes the tree.
func (s *server) write(c *conn, op string, r *zktest.Reader, w *zktest.Writer) code {
	name := r.String()
	switch op {
	case "create", "container":
		data := r.String()
		r.ACL()
		made, code := s.tree.create(name, r.Int32(), c.session)
		if code == ok {
			s.tree.nodes[made].data = data
			w.String(made)
		}
		return code
	case "delete":
		r.Int32()
		return s.remove(name)
	case "set":
		r.Bytes()
		code := s.tree.set(name, r.Int32())
		if code == ok {
			writeStat(w, s.tree.nodes[name])
		}
		return code
	case "check":
		r.Int32()
		switch {
		case s.tree.nodes[name] == nil:
			return noNode
		case name == s.hidden:
			return noAuth
		}
		return ok
	}
	panic(fmt.Sprintf("the tests' server knows no %q", op))
}

// multi executes all operations or none.
func (s *server) multi(c *conn, r *zktest.Reader, w *zktest.Writer) code {
	type result struct {
		op   int32
		code code
		data []byte
	}
	s.tree.undo = nil
	var results []result
	failed := false
	for {
		op, done := r.Int32(), r.Bool()
		r.Int32()
		if done {
			break
		}
		if s.sessions[c.session] == nil {
			results, failed = []result{{code: expired}}, true
			break
		}
		out := new(zktest.Writer)
		code := s.write(c, opNames[op], r, out)
		if failed {
			code = -2
		}
		failed = failed || code != ok
		results = append(results, result{op, code, out.Data})
	}
	if failed {
		for _, undo := range slices.Backward(s.tree.undo) {
			undo()
		}
	}
	for _, x := range results {
		if failed {
			x.op, x.data = -1, nil
		}
		w.Int32(x.op)
		w.Bool(false)
		w.Int32(int32(x.code))
		if failed {
			w.Int32(int32(x.code))
		}
		w.Data = append(w.Data, x.data...)
	}
	w.Int32(-1)
	w.Bool(true)
	w.Int32(-1)
	return ok
}

// asked lists what was asked since the last call, without what goes on in the background: signs of
// life, and watches of the client's own nodes.
func (s *server) asked() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.op != "ping" && !r.own && (r.op != "exists" || r.path != "/") {
			list = append(list, r.op)
		}
	}
	s.requests = nil
	return list
}

// children lists the nodes of a lock.
func (s *server) children(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.tree.nodes[path.Join("/locker", name)]
	if z == nil {
		return nil
	}
	return slices.Clone(z.children)
}

func writeStat(w *zktest.Writer, z *znode) {
	w.Int64(z.czxid)
	w.Int64(z.mzxid)
	w.Int64(0)
	w.Int64(0)
	w.Int32(z.version)
	w.Int32(0)
	w.Int32(0)
	w.Int64(z.owner)
	w.Int32(0)
	w.Int32(int32(len(z.children)))
	w.Int64(0)
}
