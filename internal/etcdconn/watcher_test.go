package etcdconn

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker/driver/kit"
)

// bench is a Watcher with one stream to a member that the test plays.
type bench struct {
	w         *Watcher
	s         *watchStream
	mu        sync.Mutex
	confirmed int  // how often no watch was left to be confirmed again
	over      bool // the member was too slow
}

func newBench() *bench {
	b, m := &bench{}, &member{addr: "m"}
	b.w = (&Cluster{first: m}).NewWatcher(&b.mu, func() { b.confirmed++ })
	b.w.started = true // no stream but this one
	b.s = &watchStream{at: m, queued: kit.NewSignal()}
	return b
}

// begin says that the stream is being opened.
func (b *bench) begin() {
	b.s.overdue = time.AfterFunc(confirmLimit, func() { b.over = true })
	b.w.use(b.s)
}

// open says that the stream has been opened.
func (b *bench) open() { b.w.begin(b.s) }

// breakStream says that the stream has broken, and that the next one has been opened.
func (b *bench) breakStream() {
	b.s.overdue.Stop()
	b.w.broke()
	b.s = &watchStream{at: b.s.at, queued: kit.NewSignal()}
	b.begin()
	b.open()
}

// quiet is a subject that takes everything in.
type quiet struct{}

func (quiet) Since() int64          { return 0 }
func (quiet) Begun()                {}
func (quiet) Deleted(string, int64) {}

// brief is a subject that ends its watch when it begins.
type brief struct {
	quiet
	b     *bench
	watch *Watch
}

func (s *brief) Begun() { s.b.w.Remove(s.watch) }

func (b *bench) add() (id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.w.Add("k", "", quiet{}).id
}

func (b *bench) addBrief() (id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &brief{b: b}
	s.watch = b.w.Add("k", "", s)
	return s.watch.id
}

func (b *bench) remove(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.Remove(b.w.watches[id])
}

// confirm says that the server has begun a watch.
func (b *bench) confirm(id int64) {
	_ = b.w.receive(b.s, &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1}, WatchId: id, Created: true})
}

// compact says that the server can't begin a watch, because what it had to report was compacted
// away.
func (b *bench) compact(id int64) {
	_ = b.w.receive(b.s, &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1}, WatchId: id, Canceled: true})
}

// bubble runs a case in which time passes at once.
func bubble(t *testing.T, why string, f func(t *testing.T)) {
	t.Run(why, func(t *testing.T) { synctest.Test(t, f) })
}

// A member that doesn't open a stream is left after a while, whatever begins and ends to be watched
// meanwhile.
func TestOpeningIsLimited(t *testing.T) {
	for _, c := range []struct {
		why       string
		meanwhile func(*bench)
	}{
		{"nothing else", func(*bench) {}},
		{"a watch is begun", func(b *bench) { b.add() }},
		{"a watch is begun and ended", func(b *bench) { b.remove(b.add()) }},
		{"another is begun, and the first one ended", func(b *bench) { b.add(); b.remove(1) }},
		{"the one for which it is opened is ended", func(b *bench) { b.remove(1) }},
	} {
		bubble(t, c.why, func(t *testing.T) {
			b := newBench()
			b.add()
			b.begin()
			time.Sleep(confirmLimit / 2)
			c.meanwhile(b)
			time.Sleep(confirmLimit / 2)
			synctest.Wait()
			if !b.over {
				t.Errorf("after %v the member is still waited for", confirmLimit)
			}
		})
	}
}

// confirmed is called once all watches that have begun before are confirmed on a new stream, or not needed
// any more. Others don't count, which may be begun all the time.
func TestAllAreConfirmed(t *testing.T) {
	for _, c := range []struct {
		why  string
		last func(*bench, int64)
	}{
		{"confirmed", (*bench).confirm},
		{"ended", (*bench).remove},
	} {
		bubble(t, c.why, func(t *testing.T) {
			b := newBench()
			first, second := b.add(), b.add()
			b.begin()
			b.open()
			b.confirm(first)
			b.confirm(second)
			if b.confirmed != 0 {
				t.Error("confirmed was called, though no watch has begun before")
			}
			b.breakStream()
			unconfirmed := b.add()
			b.confirm(first)
			if b.confirmed != 0 {
				t.Errorf("confirmed was called before the last watch is %s", c.why)
			}
			c.last(b, second)
			if b.confirmed != 1 {
				t.Errorf("when the last watch is %s confirmed was called %d times, want once", c.why, b.confirmed)
			}
			b.confirm(unconfirmed)
			if b.confirmed != 1 {
				t.Error("confirmed was called for a watch that has not begun before")
			}
			time.Sleep(2 * confirmLimit)
			synctest.Wait()
			if b.over {
				t.Errorf("the last watch was %s, and the member is left all the same", c.why)
			}
		})
	}
}

// A watch that ends because of a compaction begins again on the same stream: its subject has missed events.
func TestConfirmedAfterACompaction(t *testing.T) {
	bubble(t, "compacted", func(t *testing.T) {
		b := newBench()
		id := b.add()
		b.begin()
		b.open()
		b.confirm(id)
		b.compact(id)
		b.add()
		b.confirm(id + 1)
		if b.confirmed != 1 {
			t.Errorf("confirmed was called %d times, want once", b.confirmed)
		}
		b.confirm(id + 2)
	})
}

// A watch that ends itself when it begins counts once: the member still has to confirm the other
// one.
func TestEndedAsItBegins(t *testing.T) {
	for _, c := range []struct {
		why   string
		begin func(*bench, int64)
	}{
		{"confirmed", (*bench).confirm},
		{"compacted", (*bench).compact},
	} {
		bubble(t, c.why, func(t *testing.T) {
			b := newBench()
			b.add()
			brief := b.addBrief()
			b.begin()
			b.open()
			c.begin(b, brief)
			time.Sleep(confirmLimit)
			synctest.Wait()
			if !b.over {
				t.Errorf("after %v the member is still waited for", confirmLimit)
			}
		})
	}
}

// A stream to a member that was left before the stream was begun would not be ended while that
// member is silent.
func TestNoStreamToAMemberThatWasLeft(t *testing.T) {
	b := newBench()
	b.w.cluster.members = []*member{b.s.at, {addr: "next"}}
	b.w.cluster.leave(b.s.at)
	if b.w.use(b.s) {
		t.Error("a stream is begun to a member that was left")
	}
}

// etcd grpc-proxy gives watches ids of its own, so that confirmations and events come to the wrong
// ones. It is refused, and nothing else is asked there any more.
func TestWatchWithAnIDOfTheProxy(t *testing.T) {
	for _, c := range []struct {
		why     string
		resp    *pb.WatchResponse
		refused bool
	}{
		{"the first id", &pb.WatchResponse{WatchId: 0, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, true},
		{"an id that was never given", &pb.WatchResponse{WatchId: 2, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, true},
		{"no id of a cluster", &pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{}}, true},
		{"no header", &pb.WatchResponse{WatchId: 1, Created: true}, true},
		{"as a member answers", &pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, false},
	} {
		b := newBench()
		b.add()
		b.begin()
		b.open()
		err := b.w.receive(b.s, c.resp)
		if c.refused != (err != nil) || err != nil && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "grpc-proxy")) {
			t.Errorf("%s: %v, want an error that names the proxy: %v", c.why, err, c.refused)
		}
		b.s.at.conn = new(grpc.ClientConn)
		usable := b.s.at.connected(t.Context())
		if c.refused != errors.Is(usable, errors.ErrUnsupported) {
			t.Errorf("%s: the next request there: %v, want it to be refused: %v", c.why, usable, c.refused)
		}
		if c.refused && !strings.Contains(usable.Error(), "open the locker again") { // it is refused for ever
			t.Errorf("%s: %v, want an error that says what to do when the proxy is gone", c.why, usable)
		}
	}
}

// Another cluster's watch says nothing of the own one.
func TestWatchAtAnotherCluster(t *testing.T) {
	b := newBench()
	b.add()
	b.begin()
	b.open()
	if err := b.w.receive(b.s, &pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}); err != nil {
		t.Fatal(err)
	}
	for what, resp := range map[string]*pb.WatchResponse{
		"an event":  {WatchId: 1, Header: &pb.ResponseHeader{ClusterId: 2}},
		"a refusal": {WatchId: -1, Created: true, Canceled: true, CancelReason: "etcdserver: invalid auth token", Header: &pb.ResponseHeader{ClusterId: 2}},
	} {
		err := b.w.receive(b.s, resp)
		if err == nil || !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("%s of another cluster: %v, want an error that says so", what, err)
		}
	}
}
