//go:build unix

package redlock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/internal/redlockmodel"
)

// The model's steps as calls of scripts, and the answers.

// redlockItem is what a request says about one lock.
type redlockItem struct {
	owner redlockmodel.Owner
	token redlockmodel.Token
}

// ask sends a request about the lock, executes it in the model, too, and compares the results.
// Several items are executed one after the other.
func (r *redlockNode) ask(script string, items ...redlockItem) {
	r.t.Helper()
	r.node.Age = 1
	pipe := r.admin.Pipeline()
	r.write(pipe)
	before := r.node
	clock := redlockmodel.Clock{Ahead: redlockmodel.Token(1 + r.rng.IntN(9)), Floor: r.floor, Limit: beyond - 1}
	keys, args := []string{r.lock + ":memory"}, []any{r.longest().Milliseconds(), "", 0}
	for _, it := range items {
		keys = append(keys, r.lock)
		args = append(args, redlockOwner(it.owner), r.number(it.token), itest.LongTTL.Milliseconds(), "", redlockSaid(it.owner))
	}
	sent := pipe.Time(r.t.Context())
	answers := pipe.Eval(r.t.Context(), r.scripts[script], keys, args...)
	answered := pipe.Time(r.t.Context())
	found := r.read(pipe)
	_, _ = pipe.Exec(r.t.Context()) // also an error where there is no key
	got, err := answers.Result()
	if err != nil {
		r.fail("%s: %v", script, err)
	}
	found.sent, found.answered = sent.Val().UnixMicro(), answered.Val().UnixMicro()
	list, ok := got.([]any)
	if !ok {
		list = slices.Repeat([]any{got}, len(items))
	}
	for i, it := range items {
		text, _ := list[i].(string)
		r.history = append(r.history, fmt.Sprintf("%s of owner %d with token %d: %s", script, it.owner, it.token, text))
		var want redlockmodel.Answer
		switch script {
		case "acquire":
			want = r.node.Acquire(redlockmodel.Rules{}, it.owner, it.token, clock)
		case "raise":
			want = r.node.Raise(redlockmodel.Rules{}, it.owner, it.token, clock)
		case "renew":
			want = r.node.Renew(redlockmodel.Rules{}, it.owner, it.token, clock)
		case "release":
			want = r.node.Release(redlockmodel.Rules{}, it.owner)
		}
		words := strings.Fields(text)
		if len(words) == 0 || words[0] != string(want) {
			r.fail("the answer is %q, want %s", text, want)
		}
		switch want {
		case redlockmodel.Granted:
			if n := numberOf(words, 1); n != r.number(r.node.Counter(redlockmodel.Rules{}, clock)) {
				r.fail("the counter in %q is %d, want %d", text, n, r.number(r.node.Counter(redlockmodel.Rules{}, clock)))
			}
			if n := numberOf(words, 2); n < found.sent+minute || n > found.answered+minute {
				r.fail("the limit in %q is %d, want a minute more than %d", text, n, found.sent)
			}
		case redlockmodel.Held:
			if words[len(words)-1] != redlockOwner(r.node.Holder) {
				r.fail("the answer is %q, want that of owner %d", text, r.node.Holder)
			}
		case redlockmodel.Waits:
			if n := numberOf(words, 1); n <= 0 || n > waitsLong.Milliseconds() {
				r.fail("the wait in %q is %d ms, want up to %v", text, n, waitsLong)
			}
		}
		r.seen[script+" "+string(want)]++
	}
	r.compare(before, found)
}

func numberOf(words []string, i int) int64 {
	if i >= len(words) {
		return -1
	}
	n, err := strconv.ParseInt(words[i], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
