// Package etcdconn is [clientv3] as a lock needs it. It knows nothing of locks: it sends requests
// to an etcd cluster, and says what is known of each: when it was sent, in which Raft term it was
// answered, and whether a copy of it may still be executed.
//
// The client is go.etcd.io/etcd/client/v3 v3.6.14, on google.golang.org/grpc v1.82.1. The package
// works around what they do by design, and around two properties of etcd's servers:
//
//   - The client spreads requests over all members (internal/resolver/resolver.go, round_robin), so
//     one of three requests hangs while one of three members is frozen. [Cluster] has a connection
//     to each member, sends everything to one of them, and leaves it when it doesn't answer:
//     cluster.go, try.go.
//   - The client repeats a request by itself when its login has expired (retry_interceptor.go,
//     unaryClientInterceptor), and gRPC does so when a connection breaks. Whether a request may be
//     executed late depends on that, so each call counts how often gRPC took it: call.go.
//   - The client repeats what a learner refuses, up to 100 times at the same member
//     (retry_interceptor.go, isSafeRetry). Here a learner is left at once: call.go.
//   - The client waits for connections that have failed (options.go, defaultWaitForReady), and gRPC
//     waits for up to 120 s before it dials again (backoff.DefaultConfig). Requests here don't
//     wait, and a connection that has failed is dialled again at once: call.go, member.go.
//   - etcd's servers permit pings only on connections with requests or streams (server/embed/etcd.go,
//     PermitWithoutStream). So another connection may have died without a sign, and gRPC keeps it for
//     30 minutes (dialoptions.go, idleTimeout). A client of [NewClient] closes it after one: login.go.
//   - Client.Dial returns when the member is reached, or the DialTimeout has passed, if the
//     caller's client has grpc.WithBlock; and it reads the endpoints without the mutex under which
//     AutoSync sets them (client.go, Client.dial): dial.go.
//   - The client logs in for each new stream (retry_interceptor.go, streamClientInterceptor), and
//     not at the stream's own member but at any (client.go, getToken). A login costs the cluster a
//     write and a slow hash, and hangs while that member is frozen. So streams for keepalives are
//     kept, and several are opened in parallel: lease.go, open_stream.go. A login also hangs, at
//     every member, after the cluster was restored: try.go.
//   - clientv3.New waits for its first login until the DialTimeout has passed, and doesn't say that
//     no server listens (client.go, newClient): login.go.
//   - Lessor.KeepAliveOnce opens a stream for each keepalive, and doesn't say when the keepalive
//     was sent (lease.go): lease.go here.
//   - Watcher has a goroutine and a channel for each watch, and resumes at an older revision
//     (watch.go, serveSubstream), which etcd's servers deliver every 100 ms only. [Watcher] has one
//     stream for all watches, and only deletes: watcher.go, watch_stream.go.
//   - A member answers also when it was started as a cluster of its own, and "etcd grpc-proxy"
//     answers as if it were a member: identity.go.
//
// [clientv3]: https://pkg.go.dev/go.etcd.io/etcd/client/v3
package etcdconn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// MaxAttempt limits one request to one member where the caller needs no shorter limit.
const MaxAttempt = 2500 * time.Millisecond

// Cluster is the connection to a cluster. The member that answered last gets all requests; it is
// left as soon as it doesn't answer.
type Cluster struct {
	client     *clientv3.Client
	maxStreams int        // for keepalives, that are kept open to one member
	tasks      *kit.Tasks // dialling and logging in; the stream of watches has their context

	id     atomic.Uint64 // of the cluster; 0: no member has answered yet
	term   atomic.Uint64 // the latest in an answer
	seq    atomic.Uint64 // the latest Seq
	logins flight        // see logIn

	mu      sync.Mutex
	watcher *Watcher  // nil: none
	addrs   []string  // the client's endpoints, as members follow them
	members []*member // each once, in a random order
	first   *member   // the member to ask first
	closed  bool
}

// New makes a Cluster of the members that are the client's endpoints, and follows them when they
// change. It sends nothing. maxStreams is how many keepalives the caller sends at the same time.
func New(client *clientv3.Client, maxStreams int) *Cluster {
	return &Cluster{client: client, maxStreams: maxStreams, tasks: kit.NewTasks(), logins: newFlight()}
}

// flight is a call that all share that need it at the same time. Its error may be from before a
// caller came, when the network was cut, so that the caller waits for another call.
type flight = *kit.Flight[struct{}]

func newFlight() flight {
	return &kit.Flight[struct{}]{Transient: func(error) bool { return true }}
}

// Seq orders what this process sends and receives. Clocks may be too coarse for that.
type Seq uint64

func (c *Cluster) nextSeq() Seq { return Seq(c.seq.Add(1)) }

// Term is the latest Raft term that an answer had; 0: there was no answer yet.
func (c *Cluster) Term() uint64 { return c.term.Load() }

// sawTerm takes in the term of an answer.
func (c *Cluster) sawTerm(term uint64) {
	for known := c.term.Load(); known < term; known = c.term.Load() {
		if c.term.CompareAndSwap(known, term) {
			return
		}
	}
}

// SetBackTerm replaces the latest term by a lower one: the cluster was founded again or restored.
func (c *Cluster) SetBackTerm(known, term uint64) { c.term.CompareAndSwap(known, term) }

// Members returns how many members are known: none before the first request.
func (c *Cluster) Members() int { return len(c.allMembers()) }

// Addresses returns how many different addresses the members have, however they are written: none
// before the first request.
func (c *Cluster) Addresses() int {
	different := make(map[string]bool)
	for _, m := range c.allMembers() {
		different[strings.ToLower(m.host())] = true
	}
	return len(different)
}

func (c *Cluster) allMembers() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members
}

// Host returns the address of the member that is asked first; "": there is none.
func (c *Cluster) Host() string {
	m, err := c.firstMember()
	if err != nil {
		return ""
	}
	return m.host()
}

// firstMember returns the member to ask first.
func (c *Cluster) firstMember() (*member, error) {
	addrs := c.client.Endpoints()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, kit.ErrClosing
	case len(addrs) == 0:
		return nil, fmt.Errorf("%w: invalid client: it has no endpoints; want one or more, for example localhost:2379", locker.ErrOption)
	case !slices.Equal(c.addrs, addrs):
		c.follow(addrs)
	}
	return c.first, nil
}

// follow connects to members that are new among the client's endpoints, and closes the connections
// to members that are no longer among them. The order is random: in the order of the URL, all
// clients of all programs would ask the first member, and all would move to the second one when the
// first fails.
func (c *Cluster) follow(addrs []string) {
	var members []*member
	for _, addr := range addrs {
		is := func(m *member) bool { return m.addr == addr }
		switch i := slices.IndexFunc(c.members, is); {
		case slices.ContainsFunc(members, is):
		case i >= 0:
			members = append(members, c.members[i])
		default:
			members = append(members, newMember(c, addr))
		}
	}
	for _, m := range c.members {
		if !slices.Contains(members, m) {
			m.close()
		}
	}
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if !slices.Contains(members, c.first) {
		c.first = members[0]
	}
	c.addrs, c.members = addrs, members
}

// isFirst reports whether m is the member to ask first.
func (c *Cluster) isFirst(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first == m
}

// leave makes the next member the one to ask first, unless m isn't that any more. The watches
// follow.
func (c *Cluster) leave(m *member) {
	c.mu.Lock()
	leaving := c.first == m && len(c.members) > 1
	if leaving {
		c.first = c.members[(slices.Index(c.members, m)+1)%len(c.members)]
	}
	watcher := c.watcher
	c.mu.Unlock()
	if !leaving {
		return
	}
	m.forgetSilence()
	if watcher != nil {
		watcher.leave(m)
	}
}

// Close closes the connections, but not the client. It waits for nothing: a dial that is under way
// ends with the client, or with the client's DialTimeout.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.tasks.Stop(kit.ErrClosing)
	for _, m := range c.members {
		m.close()
	}
}
