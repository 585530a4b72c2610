package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	maxLimit  = 2 * time.Second // of one message and its answers
	batchSize = 512             // requests in one message
	tries     = 4               // of a message whose repetition is harmless
	alone     = 4               // requests to one server that go out by themselves before others join
)

// server sends requests to the server that has their lock, and knows how go-redis may fail.
//
// Its silent retries are off (see command), because whoever repeats a request has to remember that the first copy may
// still arrive. What is repeated is repeated here.
type server struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil: there is one server

	// A context doesn't interrupt a call of go-redis. It bounds one if ContextTimeoutEnabled is set. The timeouts of a
	// client of one server can be set as well; they are too long for contexts with little time.
	bounded, limited bool

	closing chan struct{} // closed when nobody may wait for an answer any more

	mu    sync.Mutex
	lanes map[string]*lane // by address; the one server of no Cluster has ""
}

// lane is the way to one server. There is one for each, so that one that hangs delays no other.
type lane struct {
	going atomic.Int32                // requests under way by themselves
	group *kit.Group[request, answer] // in which requests join while more than those few are under way
}

// answer is a server's reply to a request, or what came instead.
type answer struct {
	reply
	err error

	// late: the request was sent more than once, and only the last copy was answered. Another one may still arrive.
	late bool
}

func newServer(client redis.UniversalClient) *server {
	s := &server{client: client, closing: make(chan struct{}), lanes: make(map[string]*lane)}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		s.bounded, s.limited = o.ContextTimeoutEnabled, true
		if o.ReadTimeout <= 0 || o.ReadTimeout > maxLimit || o.WriteTimeout <= 0 || o.WriteTimeout > maxLimit {
			s.client = c.WithTimeout(maxLimit) // shares the connections
		}
	case *redis.ClusterClient:
		s.cluster, s.bounded = c, c.Options().ContextTimeoutEnabled
	}
	return s
}

// failsOver reports whether a replica takes the place of a server that fails, as far as the client knows.
func (s *server) failsOver() bool {
	c, ok := s.client.(*redis.Client)
	return s.cluster != nil || ok && c.Options().Addr == failoverAddr
}

// ask sends one request, together with others if many are under way. The answer's error is that of the request; ctx
// covers all of it.
func (s *server) ask(ctx context.Context, r request) answer {
	l := s.lane(ctx, r.key)
	defer l.going.Add(-1)
	if l.going.Add(1) <= alone { // without the detour through the group's goroutine
		_ = stretch(0)
		return s.send(ctx, []request{r})[0]
	}
	a, err := l.group.Do(ctx, r)
	if err != nil { // the message goes on without us, and may be sent again
		a.err, a.late = overdue(err, s.address(ctx, r.key)), !errors.Is(err, kit.ErrNotSent)
	}
	return a
}

func (s *server) lane(ctx context.Context, key string) *lane {
	addr := s.shard(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[addr]
	if l == nil {
		l = &lane{group: kit.NewGroup(func(ctx context.Context, reqs []request) ([]answer, error) {
			return s.send(ctx, reqs), nil
		}, maxLimit, batchSize)}
		s.lanes[addr] = l
	}
	return l
}

// shard tells requests apart that go to different servers, as far as is known.
func (s *server) shard(ctx context.Context, key string) string {
	if s.cluster == nil {
		return ""
	}
	node, err := s.cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// askAll sends many requests in few messages, the servers side by side, and calls report with each answer as it comes,
// for several at the same time.
func (s *server) askAll(ctx context.Context, reqs []request, report func(i int, a answer)) {
	shards := make(map[string][]int)
	for i, r := range reqs {
		addr := s.shard(ctx, r.key)
		shards[addr] = append(shards[addr], i)
	}
	var all sync.WaitGroup
	for _, part := range shards {
		all.Go(func() {
			for len(part) > 0 {
				n := min(len(part), batchSize)
				some := make([]request, n)
				for j, i := range part[:n] {
					some[j] = reqs[i]
				}
				for j, a := range s.send(ctx, some) {
					report(part[j], a)
				}
				part = part[n:]
			}
		})
	}
	all.Wait()
}

// send sends requests in one message, and once more what can be answered better then: all scripts may be repeated.
//   - NOSCRIPT: nothing was executed; again, with the whole text. It may come late: from the new server of a slot.
//   - A server that has just become a replica, a slot on the move: refused; again, a little later. Slots take their
//     time: a request that is alone, and keeps no other waiting, goes on for three quarters of its time. It doesn't use all
//     of it, because a refusal says more than the end of the time: that nothing was executed.
//   - A broken connection: nobody knows; again at once, and the answer is marked as late.
func (s *server) send(ctx context.Context, reqs []request) []answer {
	answers := make([]answer, len(reqs))
	open := make([]int, len(reqs)) // the requests without an answer
	for i := range open {
		open[i] = i
	}
	end, limited := ctx.Deadline()
	end = end.Add(-time.Until(end) / 4)
	whole := false
	for try := 1; ; try++ {
		var again []int
		pause, learns := time.Duration(0), false
		for j, values := range s.exchange(ctx, reqs, open, whole) {
			i := open[j]
			a := &answers[i]
			if a.err = redisconn.Overdue(values.err); a.err == nil {
				a.reply, a.err = parseReply(values.list)
				continue
			}
			patient := len(reqs) == 1 && !reqs[0].polls && redisconn.Says(a.err, "TRYAGAIN") && (!limited || time.Now().Before(end))
			unknown := redisconn.Says(a.err, "NOSCRIPT")
			switch {
			case ctx.Err() != nil || try >= tries && !patient && (whole || !unknown):
			case unknown:
				learns = true
				again = append(again, i)
			case redisconn.Says(a.err, "READONLY", "TRYAGAIN"):
				pause = time.Duration(min(try*try, 10)) * 10 * time.Millisecond
				again = append(again, i)
			case redisconn.Broken(a.err):
				a.late = true
				again = append(again, i)
			}
		}
		whole = whole || learns
		if open = again; len(open) == 0 || !redisconn.Sleep(ctx, pause) {
			break
		}
	}
	for i := range answers {
		if err := answers[i].err; err != nil {
			answers[i].err = overdue(err, s.address(ctx, reqs[i].key))
		}
	}
	return answers
}

// values is what a command brought.
type values struct {
	list []any
	err  error
}

// exchange is one message and its answers.
func (s *server) exchange(ctx context.Context, reqs []request, which []int, whole bool) []values {
	list := make([]values, len(which))
	cmds := make([]redis.Cmder, len(which))
	for j, i := range which {
		cmds[j] = reqs[i].command(ctx, whole)
	}
	if err := s.call(ctx, func() { s.process(ctx, cmds) }); err != nil {
		for j := range list {
			list[j].err = err
		}
		return list
	}
	for j, cmd := range cmds {
		list[j].list, list[j].err = cmd.(*command).result()
	}
	return list
}

// process carries commands out, and leaves what comes of them with each.
func (s *server) process(ctx context.Context, cmds []redis.Cmder) {
	if len(cmds) == 1 && s.cluster == nil {
		_ = s.client.Process(ctx, cmds[0])
		return
	}
	pipe := s.client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...)
	_, _ = pipe.Exec(ctx)
}

// call makes a call of go-redis that returns when ctx is over, or a little later. After an error the call may be going
// on: where nothing else bounds it, it is made aside, in a goroutine that is left behind when the time is up, and ends by
// the client's own timeouts.
func (s *server) call(ctx context.Context, do func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", redisconn.ErrNoAnswer, kit.ErrNotSent)
	}
	until, ends := ctx.Deadline()
	if s.bounded && ends || s.limited && (!ends || time.Until(until) > maxLimit/2) {
		do()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return redisconn.ErrNoAnswer
	case <-s.closing:
		return redisconn.ErrClosing
	}
}
