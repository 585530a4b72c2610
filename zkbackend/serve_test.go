package zkbackend_test

import (
	"fmt"
	"path"
	"slices"
)

// How the server carries requests out, on its nodes.

// do carries out a request.
func (s *server) do(c *conn, op string, r *reader, w *writer) code {
	s.tree.undo = nil
	if slices.Contains([]string{"create", "container", "delete", "set", "multi", "close"}, op) {
		s.tree.zxid++
	}
	switch op {
	case "ping", "auth":
		return ok
	case "close":
		s.endSession(c.session)
		return ok
	case "multi":
		return s.multi(c, r, w)
	case "watches":
		r.int64()
		for _, name := range r.list() {
			if s.tree.nodes[name] == nil {
				s.tell(c, deleted, name)
			} else {
				c.watches[name] = true
			}
		}
		return ok
	case "sync":
		w.string(r.string())
		return ok
	case "exists", "get", "children":
		return s.look(c, op, r, w)
	}
	return s.write(c, op, r, w)
}

func (s *server) look(c *conn, op string, r *reader, w *writer) code {
	name, watched := r.string(), r.bool()
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
		w.string(s.tree.data[name])
	case "children":
		w.int32(int32(len(z.children)))
		for _, child := range z.children {
			w.string(child)
		}
	}
	w.stat(z)
	return ok
}

// write carries out one operation that changes the tree.
func (s *server) write(c *conn, op string, r *reader, w *writer) code {
	name := r.string()
	switch op {
	case "create", "container":
		r.bytes()
		r.acl()
		made, code := s.tree.create(name, r.int32(), c.session)
		if code == ok {
			w.string(made)
		}
		return code
	case "delete":
		r.int32()
		return s.remove(name)
	case "set":
		r.bytes()
		code := s.tree.set(name, r.int32())
		if code == ok {
			w.stat(s.tree.nodes[name])
		}
		return code
	case "check":
		r.int32()
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

// multi carries out all operations or none.
func (s *server) multi(c *conn, r *reader, w *writer) code {
	type result struct {
		op   int32
		code code
		data []byte
	}
	s.tree.undo = nil
	var results []result
	failed := false
	for {
		op, done := r.int32(), r.bool()
		r.int32()
		if done {
			break
		}
		if s.sessions[c.session] == nil {
			results, failed = []result{{code: expired}}, true
			break
		}
		out := new(writer)
		code := s.write(c, opNames[op], r, out)
		if failed {
			code = -2
		}
		failed = failed || code != ok
		results = append(results, result{op, code, out.data})
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
		w.int32(x.op)
		w.bool(false)
		w.int32(int32(x.code))
		if failed {
			w.int32(int32(x.code))
		}
		w.data = append(w.data, x.data...)
	}
	w.int32(-1)
	w.bool(true)
	w.int32(-1)
	return ok
}

// asked lists what was asked since the last call, without what goes on in the background: signs of life, and watches of the
// client's own nodes.
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
