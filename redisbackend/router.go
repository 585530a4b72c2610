package redisbackend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	messageTimeout = 2 * time.Second // of one message and its answers
	batchSize      = 512             // requests in one message
	maxTries       = 4               // of a message whose repetition is harmless
	lanesWidth     = 4               // messages that are being sent to one server that is near; further requests join
)

// router sends each request to the server that has its lock. go-redis repeats nothing here, because
// a caller that repeats a request has to remember that the first copy may still arrive. What is
// repeated is repeated by the router.
type router struct {
	conn *redisconn.Conn

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

func newRouter(conn *redisconn.Conn) *router {
	return &router{conn: conn, lanes: make(map[string]*lanes)}
}

// ask sends one request, together with others if many are being sent. ctx covers all of it. The
// answer's error is that of the request.
func (s *router) ask(ctx context.Context, r request) answer {
	a, err := s.lanesFor(ctx, r.key).Do(ctx, r)
	if err != nil { // the message goes on without this caller, and may be sent again
		a.err, a.copyInFlight = s.conn.NameServer(ctx, err, r.key), !errors.Is(err, kit.ErrNotSent)
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

// askAll sends many requests in few messages, to all servers at the same time. It calls report with
// each answer as it comes, from several goroutines.
func (s *router) askAll(ctx context.Context, reqs []request, report func(i int, a answer)) {
	shards := make(map[string][]int)
	for i, r := range reqs {
		addr := s.conn.Shard(ctx, r.key)
		shards[addr] = append(shards[addr], i)
	}
	var all sync.WaitGroup
	for _, part := range shards {
		all.Go(func() {
			for some := range slices.Chunk(part, batchSize) {
				sent := make([]request, len(some))
				for j, i := range some {
					sent[j] = reqs[i]
				}
				for j, a := range s.send(ctx, sent) {
					report(some[j], a)
				}
			}
		})
	}
	all.Wait()
}

// send sends requests in one message, and repeats those that may succeed. All scripts may be
// repeated. It returns after messageTimeout, or when ctx ends where the connection can obey that.
//   - NOSCRIPT: nothing was executed. It is sent again with the whole text. The answer may come
//     late: from the new server of a slot.
//   - A server that has just become a replica, or a slot on the move: refused. It is sent again a
//     little later. Slots take their time: a request that is alone, and keeps no other waiting,
//     goes on for three quarters of its time. It doesn't use all of its time, because a refusal
//     says more than a timeout: that nothing was executed.
//   - A broken connection: nobody knows. It is sent again at once, and the answer says that a copy
//     may be in flight.
func (s *router) send(ctx context.Context, reqs []request) []answer {
	began := time.Now()
	end := began.Add(messageTimeout)
	if reqs[0].deadlineOnly { // or ctx is that of a lane, which doesn't end
		ctx, end = s.conn.DeadlineOnly(ctx, end)
	}
	limit := end
	if until, limited := ctx.Deadline(); limited && until.Before(end) {
		limit = until
	}
	persistUntil := limit.Add(began.Sub(limit) / 4) // three quarters of the time
	answers := make([]answer, len(reqs))
	var open []int // the requests without an answer; nil: all
	whole := false
	for try := 1; ; try++ {
		var again []int
		pause, learns := time.Duration(0), false
		cmds, failed := s.exchange(ctx, end, reqs, open, whole)
		for j, cmd := range cmds {
			i := nth(open, j)
			a := &answers[i]
			result, err := any(nil), failed
			if failed == nil {
				result, err = cmd.(*redisconn.Command).Result()
			}
			if a.err != nil && errors.Is(err, kit.ErrNotSent) {
				continue // the time was up before the repetition: keep the earlier error
			}
			if a.err = kit.Overdue(err); a.err == nil {
				a.reply, a.err = parseReply(result)
				continue
			}
			persist := len(reqs) == 1 && !reqs[0].polling && redisconn.Says(a.err, "TRYAGAIN") && time.Now().Before(persistUntil)
			unknown := redisconn.Says(a.err, "NOSCRIPT")
			switch {
			case ctx.Err() != nil || try >= maxTries && !persist && (whole || !unknown):
			case unknown:
				learns = true
				again = append(again, i)
			case redisconn.Says(a.err, "READONLY", "TRYAGAIN"):
				pause = time.Duration(min(try*try, 10)) * 10 * time.Millisecond
				again = append(again, i)
			case redisconn.Broken(a.err):
				a.copyInFlight = true
				again = append(again, i)
			}
		}
		if len(again) == 0 {
			break
		}
		if try == 1 { // most messages need no timer
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end)
			defer cancel()
		}
		whole = whole || learns
		if open = again; !kit.Sleep(ctx, pause) {
			break
		}
	}
	for i := range answers {
		answers[i].err = s.conn.NameServer(ctx, answers[i].err, reqs[i].key)
	}
	return answers
}

// exchange sends some of the requests in one message, once; nil: all. It returns the commands,
// which have the results, or one error for all of them.
func (s *router) exchange(ctx context.Context, end time.Time, reqs []request, which []int, whole bool) ([]redis.Cmder, error) {
	n := len(which)
	if which == nil {
		n = len(reqs)
	}
	cmds := make([]redis.Cmder, n)
	for j := range cmds {
		cmds[j] = s.conn.NewCommand(ctx, reqs[nth(which, j)].words(whole))
	}
	return cmds, s.conn.SendUntil(ctx, end, cmds...)
}

// nth is which[n]. A nil list means all: that saves an allocation for each message.
func nth(which []int, n int) int {
	if which == nil {
		return n
	}
	return which[n]
}
