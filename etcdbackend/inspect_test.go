package etcdbackend_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// put makes a key, as another Locker would.
func (c *cluster) put(key string, lease int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	c.keys[key] = &mvccpb.KeyValue{Key: []byte(key), CreateRevision: c.revision, ModRevision: c.revision, Lease: lease}
}

// putValue makes a key with a value.
func (c *cluster) putValue(key, value string) {
	c.put(key, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key].Value = []byte(value)
}

func readAll(t *testing.T, next driver.Pages) (all []locker.Status, pages int) {
	t.Helper()
	for more := true; more; pages++ {
		page, m, err := next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		all, more = append(all, page...), m
	}
	return all, pages
}

func TestInspectShowsTheOldestKey(t *testing.T) {
	var c cluster
	d := c.start(t)
	_, g := acquire(t, d, "a/b", 10*time.Second)
	c.put("locker/a%2Fb/000", 0)
	c.put("locker/a%2Fb/zzz", 0xabc)
	c.put("locker/a%2Fbc/000", 0)
	s, err := d.(driver.Inspector).Inspect(t.Context(), "a/b", locker.Look{Waiters: 1})
	if err != nil || s.Key != "locker/a%2Fb/" || s.Holder == nil || s.Waiting != 2 || len(s.Waiters) != 1 || !strings.HasPrefix(s.Waiters[0].Owner, "000@") {
		t.Fatalf("Inspect = %+v, %v, want a holder and 2 waiters, of whom 000 is the first", s, err)
	}
	if p := *s.Holder; p.Token != g.Token || !strings.HasSuffix(p.Owner, "@"+g.Token.String()) || p.ExpiresIn != 11*time.Second || len(p.Session) != 16 {
		t.Errorf("Inspect shows the holder %+v, want token %v, 11 s and an etcd lease", p, g.Token)
	}
	if s, err := d.(driver.Inspector).Inspect(t.Context(), "b", locker.Look{Waiters: 1}); err != nil || s.Holder != nil || s.Waiting != 0 {
		t.Errorf("Inspect of a free lock = %+v, %v", s, err)
	}
}

// The keys of a lock may be on two pages. What is no lock's isn't shown.
func TestListPutsPagesTogether(t *testing.T) {
	var c cluster
	d := c.start(t)
	acquire(t, d, "held", 10*time.Second)
	lease := c.leaseOf(c.keyNames()[0])
	for i := range 998 {
		c.put(fmt.Sprintf("locker/a%04d/x", i), lease)
	}
	for i := range 5 { // the last key of a page, and the first of the next
		c.put(fmt.Sprintf("locker/b/%d", 9-i), lease)
	}
	for i := range 1500 {
		c.put(fmt.Sprintf("locker/c%%2F%04d/x", i), 0)
	}
	for _, key := range []string{"locker/%guard/00", "locker/none", "locker/%2f/x", "locker//x", "locke", "locker0/a/x"} {
		c.put(key, 0)
	}
	c.looked = 0
	all, pages := readAll(t, d.(driver.Inspector).List("", 10))
	if len(all) != 1+998+1+1500 || pages != 3 {
		t.Errorf("List shows %d locks on %d pages, want 2500 on 3", len(all), pages)
	}
	if c.looked != 1 {
		t.Errorf("List has asked %d times about one etcd lease", c.looked)
	}
	i := slices.IndexFunc(all, func(s locker.Status) bool { return s.Name == "b" })
	if i < 0 || !strings.HasPrefix(all[i].Holder.Owner, "9@") || all[i].Waiting != 4 || !strings.HasPrefix(all[i].Waiters[3].Owner, "5@") || all[i].Holder.ExpiresIn != 11*time.Second {
		t.Errorf("List shows %+v of the lock whose keys are on two pages", all[max(i, 0)])
	}
	if below, _ := readAll(t, d.(driver.Inspector).List("c/1", 0)); len(below) != 500 || below[0].Name != "c/1000" {
		t.Errorf("List of c/1 shows %d locks, want 500", len(below))
	}
}

// All pages are of the revision of the first one. When that is compacted, the rest is of a later
// one.
func TestListIsOfOneRevision(t *testing.T) {
	var c cluster
	d := c.start(t)
	for i := range 2500 {
		c.put(fmt.Sprintf("locker/%04d/x", i), 0)
	}
	var asked []int64
	c.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if len(r.Success) == 0 { // a look at the header alone, after a refusal
			return c.txn(r)
		}
		asked = append(asked, r.Success[0].GetRequestRange().Revision)
		if len(asked) == 3 {
			return nil, rpctypes.ErrGRPCCompacted
		}
		defer c.put("other", 0)
		return c.txn(r)
	}
	all, _ := readAll(t, d.(driver.Inspector).List("", 0))
	if len(all) != 2500 {
		t.Errorf("List shows %d locks, want 2500", len(all))
	}
	if first := asked[1]; len(asked) != 4 || asked[0] != 0 || first == 0 || asked[2] != first || asked[3] != 0 {
		t.Errorf("the pages were read at the revisions %d, want that of the first until it is compacted", asked)
	}
}

// The label is in the key's value, put by the same request, and a key that is moved keeps it.
func TestLabelIsInTheKeysValue(t *testing.T) {
	var c cluster
	d := c.start(t)
	prepared := func(name, holder string) driver.Lock {
		l, err := d.Lock(locker.Request{Name: name, TTL: 10 * time.Second, Holder: holder}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	began := time.Now().Truncate(time.Millisecond)
	l, waiter, silent := prepared("a", "me, OPS-118"), prepared("a", "you"), prepared("b", "-")
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatal(err)
	}
	if _, err := silent.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks := func(when string) {
		t.Helper()
		all, _ := readAll(t, d.(driver.Inspector).List("", 1))
		s, err := d.(driver.Inspector).Inspect(t.Context(), "a", locker.Look{Waiters: 1})
		if err != nil || len(all) != 2 || !reflect.DeepEqual(all[0], s) {
			t.Fatalf("%s, Inspect = %+v, %v, and List shows %+v", when, s, err, all)
		}
		if s.Holder.Holder != "me, OPS-118" || s.Holder.Asked.Before(began) || s.Waiters[0].Holder != "you" {
			t.Errorf("%s, Inspect shows the holder %+v and the waiter %+v", when, s.Holder, s.Waiters[0])
		}
		if all[1].Holder.Holder != "" || c.get(etcdbackend.KeyOf(silent)).Value[0] != '\n' {
			t.Errorf("%s, the holder that says nothing is shown as %q", when, all[1].Holder.Holder)
		}
	}
	looks("after the grant")
	before := c.leaseOf(etcdbackend.KeyOf(l))
	c.elect()
	for i, err := range renew(t, d, l, waiter, silent) {
		if err != nil {
			t.Fatalf("Renew of lock %d = %v", i, err)
		}
	}
	if c.leaseOf(etcdbackend.KeyOf(l)) == before {
		t.Fatal("the key was not moved when there was a new leader")
	}
	looks("after a new leader")
}

// What others have put is shown as text, whatever it is.
func TestInspectOfForeignValues(t *testing.T) {
	var c cluster
	d := c.start(t)
	for i, value := range []string{strings.Repeat("\xff", 1<<20), strings.Repeat("\x00\x1b[2J", 50), "1795221171926 ", "99999999999999999999 x", " ", "\nx"} {
		name := fmt.Sprint(i)
		c.putValue("locker/"+name+"/x", value)
		s, err := d.(driver.Inspector).Inspect(t.Context(), name, locker.Look{Waiters: 1})
		if err != nil || s.Holder == nil {
			t.Fatalf("Inspect = %+v, %v", s, err)
		}
		if h := s.Holder.Holder; len(h) > locker.MaxHolder || !utf8.ValidString(h) || strings.ContainsFunc(h, unicode.IsControl) {
			t.Errorf("Inspect shows the holder %.100q", h)
		}
	}
	if all, _ := readAll(t, d.(driver.Inspector).List("", 1)); len(all) != 6 {
		t.Errorf("List shows %d locks, want 6", len(all))
	}
}
