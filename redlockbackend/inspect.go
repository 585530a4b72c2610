package redlockbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

var _ driver.Inspector = (*redlock)(nil)

var inspectScript = redisconn.LoadScript(files, "inspect.lua")

// Inspect asks all servers at the same time.
func (d *redlock) Inspect(ctx context.Context, name string, waiters int) (locker.Status, error) {
	key := lockKey(d.prefix, name)
	all := make([][]record, len(d.nodes))
	why := make([]error, len(d.nodes))
	d.each(func(i int) { all[i], _, why[i] = d.nodes[i].inspect(ctx, d.nodeTimeout, waiters, key, "") })
	if err := d.tooFew(why); err != nil {
		return locker.Status{}, err
	}
	var records []record
	for _, of := range all {
		records = append(records, of...)
	}
	s := statusOf(records, majority(len(d.nodes)), waiters)
	s.Name, s.Key = name, key
	return s, nil
}

// each calls f for all servers at the same time.
func (d *redlock) each(f func(i int)) {
	numbers := make([]int, len(d.nodes))
	for i := range numbers {
		numbers[i] = i
	}
	kit.Parallel(len(numbers), numbers, f)
}

// tooFew is the error of servers that could not be asked, unless the others are a majority.
func (d *redlock) tooFew(errs []error) error {
	why := make(map[int]error)
	for i, err := range errs {
		if err != nil {
			why[i] = permissionsFor(d.prefix).Explain(err)
		}
	}
	if len(d.nodes)-len(why) >= majority(len(d.nodes)) {
		return nil
	}
	return d.failure(fmt.Sprintf("no majority answers: %d of %d servers don't", len(why), len(d.nodes)), why)
}

// record is what one server knows of a lock.
type record struct {
	key     string
	owner   string
	token   locker.Token  // 0: the owner has not raised the counter here
	held    bool          // the lock's key exists
	turn    bool          // it is kept for a waiter
	left    time.Duration // of the key; 0: somebody has removed its expiry
	waiting int
	first   []place // of those that wait
}

// place is a waiter on one server.
type place struct {
	channel string
	ticket  int64 // when it began to wait, by its clock, in µs
}

// inspect asks the server about one lock, or makes a step through its keys. It returns the next
// cursor as well, "0" after the last step. The request changes nothing, so it is sent again when
// its connection has ended.
func (n *node) inspect(ctx context.Context, limit time.Duration, waiters int, what, cursor string) ([]record, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	whole, again := false, false
	for {
		words := append(inspectScript.Args(whole, 0, 4), n.client.Options().DB, waiters, what, cursor)
		cmd := redisconn.NewCommand(ctx, words...)
		err := n.conn.Send(ctx, cmd)
		var val any
		if err == nil {
			val, err = cmd.Result()
		}
		switch {
		case err == nil:
			return parseRecords(val)
		case redisconn.Says(err, "NOSCRIPT") && !whole:
			whole = true
		case redisconn.Broken(err) && !again && ctx.Err() == nil:
			again = true
		default:
			return nil, "", kit.Overdue(err)
		}
	}
}

// parseRecords reads an answer of inspect.lua.
func parseRecords(val any) (records []record, cursor string, err error) {
	invalid := fmt.Errorf("invalid answer of a script: %.200v", val)
	list, _ := val.([]any)
	if len(list) == 0 {
		return nil, "", invalid
	}
	cursor, ok := list[0].(string)
	if !ok {
		return nil, "", invalid
	}
	for _, about := range list[1:] {
		words, _ := about.([]any)
		if len(words) < 4 || len(words)%2 != 0 {
			return nil, "", invalid
		}
		r := record{}
		pttl, ok1 := words[2].(int64)
		waiting, ok2 := words[3].(int64)
		if r.key, ok = words[0].(string); !ok || !ok1 || !ok2 {
			return nil, "", invalid
		}
		r.left, r.waiting = max(milliseconds(pttl), 0), int(waiting)
		var lease string
		if lease, r.held = words[1].(string); r.held {
			var token string
			r.owner, token, _ = strings.Cut(lease, " ")
			r.turn = token == "turn"
			n, _ := strconv.ParseInt(token, 10, 64) // somebody else's value has none
			r.token = locker.Token(n)
		}
		for i := 4; i < len(words); i += 2 {
			channel, _ := words[i].(string)
			ticket, _ := words[i+1].(string)
			at, _ := strconv.ParseFloat(ticket, 64)
			r.first = append(r.first, place{channel, int64(at)})
		}
		records = append(records, r)
	}
	return records, cursor, nil
}
