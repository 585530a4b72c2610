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

// inspectTries is how often the servers are asked while those that answer don't say enough. An
// acquisition that is under way looks like that for a moment.
const inspectTries = 3

// Inspect asks all servers at the same time.
func (d *redlock) Inspect(ctx context.Context, name string, waiters int) (locker.Status, error) {
	return d.inspect(ctx, lockKey(d.prefix, name, 0), waiters)
}

// inspect is Inspect by a lock's key.
func (d *redlock) inspect(ctx context.Context, key string, waiters int) (locker.Status, error) {
	for try := 1; ; try++ {
		s, unsure, err := d.ask(ctx, key, waiters)
		if err == nil && unsure != nil {
			if try < inspectTries && ctx.Err() == nil {
				continue
			}
			err = unsure
		}
		if err != nil {
			return locker.Status{}, err
		}
		return s, nil
	}
}

// ask asks all servers once. unsure says that nobody knows whether the lock is held, because of
// servers that don't answer.
func (d *redlock) ask(ctx context.Context, key string, waiters int) (s locker.Status, unsure, err error) {
	all := make([][]record, len(d.nodes))
	why := make([]error, len(d.nodes))
	d.each(func(i int) { all[i], _, why[i] = d.nodes[i].inspect(ctx, d.serverTimeout, waiters, key, "") })
	silent := d.silent(why)
	if err := d.tooFew(silent); err != nil {
		return s, nil, err
	}
	var records []record
	for _, of := range all {
		records = append(records, of...)
	}
	s, sure := statusOf(records, majority(len(d.nodes)), len(silent), waiters)
	s.Name, s.Slot, _ = redisconn.NameOf(d.prefix, key)
	s.Key = key
	if !sure {
		unsure = d.failure(fmt.Sprintf("whether the lock is held is known to servers that don't answer: %d of %d", len(silent), len(d.nodes)), silent)
	}
	return s, unsure, nil
}

// each calls f for all servers at the same time.
func (d *redlock) each(f func(i int)) {
	numbers := make([]int, len(d.nodes))
	for i := range numbers {
		numbers[i] = i
	}
	kit.Parallel(len(numbers), numbers, f)
}

// silent are the errors of the servers that could not be asked, by their numbers.
func (d *redlock) silent(errs []error) map[int]error {
	why := make(map[int]error)
	for i, err := range errs {
		if err != nil {
			why[i] = permissionsFor(d.prefix).Explain(err)
		}
	}
	return why
}

// tooFew is the error of servers that could not be asked, unless the others are a majority.
func (d *redlock) tooFew(silent map[int]error) error {
	if len(d.nodes)-len(silent) >= majority(len(d.nodes)) {
		return nil
	}
	return d.failure(fmt.Sprintf("no majority answers: %d of %d servers don't", len(silent), len(d.nodes)), silent)
}

// record is what one server knows of a lock.
type record struct {
	key     string
	owner   string
	token   locker.Token   // 0: the owner has not raised the counter here
	held    bool           // the lock's key exists
	foreign bool           // somebody else has written it: it has no owner
	label   string         // what the owner says of itself
	breach  *locker.Breach // with which it is marked; nil: it isn't
	turn    bool           // it is kept for a waiter
	left    time.Duration  // of the key; 0: somebody has removed its expiry
	waiting int
	first   []place // of those that wait
}

// place is a waiter on one server.
type place struct {
	channel string
	label   string
	ticket  int64 // when it began to wait, by its clock, in µs
}

// inspect asks the server about one lock, or makes a step through its keys. It returns the next
// cursor as well, "0" after the last step. The request changes nothing, so it is sent again when
// its connection has ended.
func (n *node) inspect(
	ctx context.Context, limit time.Duration, waiters int, what, cursor string,
) ([]record, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	whole, again := false, false
	for {
		words := append(inspectScript.Begin(nil, whole), 0, n.client.Options().DB, waiters, what, cursor)
		cmd := redisconn.NewCommand(ctx, words...)
		err := n.conn.SendAside(ctx, cmd)
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
			return nil, "", redisconn.Overdue(err)
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
			lease, r.label, r.breach = cutLease(lease)
			r.owner, token, _ = strings.Cut(lease, " ")
			r.turn = token == "turn"
			n, err := strconv.ParseInt(token, 10, 64)
			if r.token = locker.Token(n); !r.turn && (err != nil || n < 0) {
				r.owner, r.token, r.label, r.breach, r.foreign = "", 0, "", nil, true
			}
			if pttl == 0 {
				r.left = time.Millisecond // less, and it has an expiry
			}
		}
		for i := 4; i < len(words); i += 2 {
			member, _ := words[i].(string)
			channel, label := twoLines(member)
			ticket, _ := words[i+1].(string)
			at, _ := strconv.ParseFloat(ticket, 64)
			r.first = append(r.first, place{channel, label, int64(min(max(at, 0), 1<<62))}) // somebody else may have written it
		}
		records = append(records, r)
	}
	return records, cursor, nil
}

// cutLease cuts the value of a lock's key into its first line, without a mark, the label, and the
// breach of the mark.
func cutLease(value string) (first, label string, breach *locker.Breach) {
	first, label = twoLines(value)
	first, isMarked := strings.CutPrefix(first, "!")
	if isMarked {
		lines := strings.SplitN(value, "\n", 4)
		breach = breachOf(strings.Join(lines[min(2, len(lines)):min(3, len(lines))], ""))
	}
	return first, label, breach
}

// twoLines cuts a value into what the scripts read of it, and the label.
func twoLines(value string) (first, label string) {
	first, rest, _ := strings.Cut(value, "\n")
	label, _, _ = strings.Cut(rest, "\n")
	return first, label
}
