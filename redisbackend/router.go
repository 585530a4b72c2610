package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	batchSize  = 512 // requests in one message
	lanesWidth = 4   // messages that are being sent to one server that is near; further requests join
)

// router sends each request to the server that has its lock. go-redis repeats nothing here, because
// a caller that repeats a request has to remember that the first copy may still arrive. What is
// repeated is repeated by the router.
type router struct {
	conn *redisconn.Conn
	db   any // that the scripts select: see script.begin

	mu    sync.Mutex
	lanes map[string]*lanes // by address; "" without a Cluster
}

// lanes are the way to one server. Each server has its own, so that a server that doesn't answer
// delays no other.
type lanes = kit.Lanes[request, answer]

// answer is a server's reply to a request, or the error that came instead.
type answer struct {
	reply
	err error

	// copyInFlight: the request was sent more than once, and only the last copy was answered.
	// Another copy may still arrive.
	copyInFlight bool
}

func newRouter(conn *redisconn.Conn, db any) *router {
	return &router{conn: conn, db: db, lanes: make(map[string]*lanes)}
}

// ask sends one request, together with others if many are being sent. ctx covers all of it. The
// answer's error is the request's.
func (s *router) ask(ctx context.Context, r request) answer {
	a, err := s.lanesFor(ctx, r.key).Do(ctx, r)
	if err != nil { // the message goes on without this caller, and may be sent again
		a.err, a.copyInFlight = s.conn.NameServer(ctx, err, r.key), !errors.Is(err, kit.ErrNotSent)
	}
	return a
}

// askAside is ask for callers that must not wait longer than ctx. The request may be executed later.
func (s *router) askAside(ctx context.Context, r request) answer {
	if s.conn.ObeysContext() {
		return s.ask(ctx, r)
	}
	var a answer
	if left := s.conn.CallAside(ctx, func() { a = s.ask(ctx, r) }); left != nil {
		return answer{err: s.conn.NameServer(ctx, left, r.key), copyInFlight: !errors.Is(left, kit.ErrNotSent)}
	}
	return a
}

func (s *router) lanesFor(ctx context.Context, key string) *lanes {
	addr := s.conn.Shard(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[addr]
	if l == nil {
		l = kit.NewLanes(func(ctx context.Context, reqs []request) ([]answer, error) {
			redisconn.GrowStack()
			return s.send(ctx, reqs), nil
		}, kit.LaneOptions{Width: lanesWidth, MaxWidth: s.conn.PoolSize(), Size: batchSize, CallersSend: true}) // send has a time limit
		s.lanes[addr] = l
	}
	return l
}

// parts are the indexes of requests, by the address of the server that has their locks.
type parts map[string][]int

func (s *router) partsOf(ctx context.Context, reqs []request) parts {
	p := make(parts)
	for i, r := range reqs {
		addr := s.conn.Shard(ctx, r.key)
		p[addr] = append(p[addr], i)
	}
	return p
}

// messages is how many messages the largest part needs.
func (p parts) messages() (n int) {
	for _, some := range p {
		n = max(n, (len(some)+batchSize-1)/batchSize)
	}
	return n
}

// askAll sends many requests in few messages, to all servers at the same time, and width messages at a
// time to each. It calls report with each answer as it comes, from several goroutines.
func (s *router) askAll(ctx context.Context, reqs []request, p parts, width int, report func(i int, a answer)) {
	var all sync.WaitGroup
	for _, part := range p {
		all.Go(func() {
			kit.Parallel(width, slices.Collect(slices.Chunk(part, batchSize)), func(message []int) {
				if ctx.Err() != nil {
					s.leaveOut(ctx, reqs, message, report)
					return
				}
				sent := make([]request, len(message))
				for j, i := range message {
					sent[j] = reqs[i]
				}
				for j, a := range s.send(ctx, sent) {
					report(message[j], a)
				}
			})
		})
	}
	all.Wait()
}

// leaveOut reports requests for which no time is left.
func (s *router) leaveOut(ctx context.Context, reqs []request, some []int, report func(i int, a answer)) {
	for _, i := range some {
		err := fmt.Errorf("%w: %w", locker.ErrNoAnswer, kit.ErrNotSent)
		report(i, answer{err: s.conn.NameServer(ctx, err, reqs[i].key)})
	}
}
