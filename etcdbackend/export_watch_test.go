package etcdbackend

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Watches is the watches of a Locker, with one stream.
type Watches struct {
	w       *watches
	s       *watchStream
	Doubted int  // held locks whose keys were to be read
	Over    bool // the member was too slow
}

func NewWatches() *Watches {
	one, m := &Watches{}, &member{addr: "m"}
	one.w = newWatches(context.Background(), &server{good: m}, func(locks []*lock) { one.Doubted += len(locks) })
	one.w.started = true // no stream but this one
	one.s = &watchStream{at: m, queued: make(chan struct{}, 1)}
	return one
}

// Begin says that the stream is being opened.
func (w *Watches) Begin() {
	w.s.overdue = time.AfterFunc(confirmLimit, func() { w.Over = true })
	w.w.use(w.s)
}

// BeginAtALeftMember reports whether a stream is begun to a member that was left a moment ago.
func (w *Watches) BeginAtALeftMember() bool {
	w.w.server.members = []*member{w.s.at, {addr: "next"}}
	w.w.server.left = w.w.leave
	w.w.server.leave(w.s.at)
	return w.w.use(w.s)
}

// Open says that the stream has been opened.
func (w *Watches) Open() { w.w.begin(w.s) }

// AddHeld begins a watch of a key that is held, and was watched before by another stream.
func (w *Watches) AddHeld() (id int64) {
	return w.add(&heldKey{lock: &lock{}, w: w.w, began: true})
}

// AddFar begins a watch that is ended as soon as something may have been missed.
func (w *Watches) AddFar() (id int64) {
	f := &farWatch{w: w.w, lock: &lock{dir: "n/"}, began: true}
	w.w.names["n/"] = &nameWatch{w: w.w, watch: &watch{}, locks: map[*lock]struct{}{f.lock: {}}}
	id = w.add(f)
	f.watch = w.w.all[id]
	return id
}

func (w *Watches) add(s subject) int64 {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return w.w.add("k", "", s).id
}

func (w *Watches) Remove(id int64) {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	w.w.remove(w.w.all[id])
}

// Heard takes in a response.
func (w *Watches) Heard(resp *pb.WatchResponse) error { return w.w.heard(w.s, resp) }

// Usable says whether the member may be asked for anything.
func (w *Watches) Usable() error {
	w.s.at.conn = new(grpc.ClientConn)
	return w.s.at.connected(context.Background())
}

// Confirm says that the server has begun a watch.
func (w *Watches) Confirm(id int64) {
	_ = w.w.heard(w.s, &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1}, WatchId: id, Created: true})
}

// Compact says that the server can't begin a watch, because what it had to tell was compacted away.
func (w *Watches) Compact(id int64) {
	_ = w.w.heard(w.s, &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1}, WatchId: id, Canceled: true})
}
