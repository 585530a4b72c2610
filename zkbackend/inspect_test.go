package zkbackend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func listNames(t *testing.T, l locker.Locker, prefix string) (names []string) {
	t.Helper()
	for s, err := range locker.List(t.Context(), l, prefix, 1) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		if got, err := locker.Inspect(t.Context(), l, "a/b", locker.Look{Waiters: 1}); err != nil || got.Holder != nil || got.Key != "/locker/a%2Fb" {
			t.Errorf("Inspect of a lock that has no node = %+v, %v", got, err)
		}
		if got := listNames(t, l, ""); len(got) != 0 {
			t.Errorf("List shows %q where nobody has held anything", got)
		}
		lease := acquire(t, l, "a/b")
		var waiters []*waiter
		for range 3 {
			waiters = append(waiters, wait(t, open(t, s), "a/b"))
			synctest.Wait()
		}
		got, err := locker.Inspect(t.Context(), other, "a/b", locker.Look{Waiters: 2})
		if err != nil || got.Holder == nil || got.Holder.Token != lease.Token() || got.Waiting != 3 || len(got.Waiters) != 2 {
			t.Fatalf("Inspect = %+v, %v, want token %v and 2 of 3 waiters", got, err, lease.Token())
		}
		release(t, lease)
		next := waiters[0].granted(t)
		if now, err := locker.Inspect(t.Context(), other, "a/b", locker.Look{}); err != nil || now.Holder.Owner != got.Waiters[0].Owner || now.Holder.Token != next.Token() {
			t.Errorf("Inspect = %+v, %v, want the first waiter as the holder", now.Holder, err)
		}
	})
}

// The nodes of locks that are free, and what others have put among them, are not listed.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "free"))
		want := []string{"%", "a/b"}
		for i := range 600 { // more than a page
			want = append(want, fmt.Sprintf("n/%03d", i))
		}
		for _, name := range want {
			acquire(t, l, name)
		}
		s.mu.Lock()
		for _, node := range []string{"/locker/%2f", "/locker/%2f/" + strings.Repeat("a", 32) + "-0000000001", "/locker/foreign", "/locker/foreign/x"} {
			s.tree.create(node, 0, 0)
		}
		s.mu.Unlock()
		if got := listNames(t, l, ""); !slices.Equal(got, want) {
			t.Errorf("List shows %d locks, want %d", len(got), len(want))
		}
		if got := listNames(t, l, "n/1"); !slices.Equal(got, want[102:202]) {
			t.Errorf("List of n/1 shows %q", got)
		}
	})
}

// A lock whose node somebody has made unreadable ends the list, and is named.
func TestListWithANodeThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		for _, name := range []string{"a", "b/c", "d"} {
			acquire(t, l, name)
		}
		s.scripts(func(r request) verdict {
			if r.op == "children" && r.path == "/locker/b%2Fc" {
				return refuse
			}
			return serve
		})
		var failed error
		for _, err := range locker.List(t.Context(), l, "", 0) {
			failed = err
		}
		if !errors.Is(failed, zk.ErrNoAuth) || !strings.Contains(failed.Error(), "/locker/b%2Fc: a permission is missing") {
			t.Errorf("List = %v, want the node that may not be read", failed)
		}
	})
}

// A list goes on with another session when its own ends.
func TestListWhenASessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		holder, l := open(t, s), open(t, s)
		for i := range 600 {
			acquire(t, holder, fmt.Sprint(i))
		}
		n := 0
		for _, err := range locker.List(t.Context(), l, "", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 500 {
				s.sever()
			}
		}
		if n != 600 {
			t.Errorf("List shows %d locks, want 600", n)
		}
	})
}

// A holder that goes between the list of the nodes and the look at them was a holder, and the next
// one is shown. A waiter that goes is not counted.
func TestInspectWhileNodesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		acquire(t, open(t, s), "a")
		for range 3 {
			wait(t, open(t, s), "a")
			synctest.Wait()
		}
		nodes := s.children("a")
		for _, i := range []int{0, 2} {
			gone := false
			s.scripts(func(r request) verdict {
				if r.op == "get" && !r.own && strings.HasPrefix(r.path, "/locker/a/") && !gone {
					gone = true
					s.tree.remove("/locker/a/" + nodes[i])
				}
				return serve
			})
			got, err := locker.Inspect(t.Context(), l, "a", locker.Look{Waiters: 3})
			if err != nil || got.Holder == nil || got.Holder.Owner != nodes[1][:32] || !gone {
				t.Fatalf("Inspect = %+v, %v, want the second as the holder", got, err)
			}
			if len(got.Waiters) != got.Waiting || got.Waiting != 2-i/2 {
				t.Errorf("after node %d has gone Inspect shows %d of %d waiters", i, len(got.Waiters), got.Waiting)
			}
		}
	})
}

// The label is the node's data, in the same request. It is the same on the node of the next session.
func TestLabelIsTheNodesData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		began := time.Now()
		lease := acquire(t, l, "a", locker.WithHolder("me, OPS-118"))
		w := wait(t, other, "a", locker.WithHolder("you"))
		synctest.Wait()
		silent := acquire(t, l, "b", locker.WithHolder("-"))
		for _, name := range []string{"a", "b"} {
			release(t, acquire(t, l, "warm "+name))
		}
		got, err := locker.Inspect(t.Context(), open(t, s), "a", locker.Look{Waiters: 1})
		if err != nil || got.Holder == nil || len(got.Waiters) != 1 || got.Holder.Holder != "me, OPS-118" || got.Waiters[0].Holder != "you" {
			t.Fatalf("Inspect = %+v with holder %+v, %v, want what they say of themselves", got, got.Holder, err)
		}
		s.mu.Lock()
		node := s.tree.nodes["/locker/a/"+s.tree.nodes["/locker/a"].children[0]]
		label := driver.ParseLabel(node.data)
		if d := label.Asked.Sub(began); label.Holder != "me, OPS-118" || d < -time.Millisecond || d > time.Second {
			t.Errorf("the node's data is %q", node.data)
		}
		if data := s.tree.nodes["/locker/b/"+s.tree.nodes["/locker/b"].children[0]].data; data != "" {
			t.Errorf("the data of a node whose holder says nothing is %q", data)
		}
		s.mu.Unlock()
		release(t, silent)

		s.sever() // all connect again, and keep their sessions
		got, err = locker.Inspect(t.Context(), l, "a", locker.Look{Waiters: 1})
		if err != nil || got.Holder == nil || got.Holder.Holder != "me, OPS-118" || len(got.Waiters) != 1 || got.Waiters[0].Holder != "you" {
			t.Errorf("after a reconnect Inspect = %+v with holder %+v, %v", got, got.Holder, err)
		}
		release(t, lease)
		release(t, w.granted(t))
	})
}

// What others have written into a node is shown as text, and nothing is watched by looking.
func TestInspectOfForeignData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, looker := open(t, s), open(t, s)
		acquire(t, l, "a")
		for _, data := range []string{strings.Repeat("\xff", 1<<20), strings.Repeat("\x00\x1b[2J", 50), "1795221171926 ", "99999999999999999999 x"} {
			s.mu.Lock()
			path := "/locker/a/" + s.tree.nodes["/locker/a"].children[0]
			s.tree.nodes[path].data = data
			s.mu.Unlock()
			got, err := locker.Inspect(t.Context(), looker, "a", locker.Look{Waiters: 1})
			if err != nil || got.Holder == nil {
				t.Fatalf("Inspect = %+v, %v", got, err)
			}
			if h := got.Holder.Holder; len(h) > locker.MaxHolder || !utf8.ValidString(h) || strings.ContainsFunc(h, unicode.IsControl) {
				t.Errorf("Inspect shows the holder %.100q", h)
			}
			watching := 0
			s.mu.Lock()
			for c := range s.conns {
				if c.watches[path] {
					watching++
				}
			}
			s.mu.Unlock()
			if watching != 0 { // the holder's own watch begins later
				t.Errorf("%d connections watch the node, want none", watching)
			}
		}
	})
}

// Where the data may not be read, the holder is shown without it.
func TestInspectWithoutPermissionToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, looker := open(t, s), open(t, s)
		lease := acquire(t, l, "a")
		s.scripts(func(r request) verdict {
			if r.op == "get" && !r.own && strings.HasPrefix(r.path, "/locker/a/") {
				return refuse
			}
			return serve
		})
		got, err := locker.Inspect(t.Context(), looker, "a", locker.Look{Waiters: 1})
		if err != nil || got.Holder == nil || got.Holder.Token != lease.Token() || got.Holder.Holder != "" {
			t.Errorf("Inspect = %+v, %v, want the holder without a label", got.Holder, err)
		}
	})
}
