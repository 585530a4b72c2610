//go:build unix

package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/internal/redlockmodel"
)

// The records of the model's node, as keys on a server.

func (r *redlockNode) keys() []string {
	keys := []string{r.lock, r.lock + ":token", r.lock + ":memory"}
	for o := range redlockmodel.Owner(redlockOwners) {
		keys = append(keys, r.lock+":tomb:"+redlockOwner(o+1))
	}
	return keys
}

// write makes the server's keys the same as the model's. Expiries are half of what a step would start
// them with.
func (r *redlockNode) write(pipe redis.Pipeliner) {
	pipe.Del(r.t.Context(), r.keys()...)
	set := func(key, value string, ttl time.Duration) { pipe.Set(r.t.Context(), key, value, ttl) }
	if r.node.Holder != 0 {
		set(r.lock, r.lease(), itest.LongTTL/2)
	}
	if r.node.Token != 0 {
		set(r.lock+":token", strconv.FormatInt(r.number(r.node.Token), 10), time.Hour)
	}
	for o := range redlockmodel.Owner(redlockOwners) {
		if r.node.Tombs>>o&1 == 1 {
			set(r.lock+":tomb:"+redlockOwner(o+1), "", itest.LongTTL/2)
		}
	}
	note := func(history string, db int, since int64) string {
		return fmt.Sprintf("%s %d %d %d", history, db, since, r.longest().Milliseconds())
	}
	history := strings.Fields(r.here)[0]
	another := strings.Repeat("0", 40) // which is also what INFO shows as master_replid2
	memory := note(history, 0, r.since())
	switch r.node.Memory {
	case redlockmodel.Lost:
		memory = []string{
			"",
			"gibberish",
			note(another, 0, r.since()),
			note(history, 0, r.number(beyond)), // the clock was set back
		}[r.rng.IntN(4)]
	case redlockmodel.Replaced:
		memory = []string{
			note(another, 0, r.since()),
			note(history, redlockOther, r.since()),
		}[r.rng.IntN(2)]
	}
	if memory != "" {
		set(r.lock+":memory", memory, 0)
	}
	aside := note(history, redlockOther, 0) // of a client that uses the other database
	if r.node.Aside {
		aside = note(history, 0, 0)
	}
	pipe.Do(r.t.Context(), "select", redlockOther)
	set(r.lock+":memory", aside, itest.LongTTL)
	pipe.Do(r.t.Context(), "select", 0)
}

// redlockOther is another database than the lock's.
const redlockOther = 7

func (r *redlockNode) lease() string {
	raised := int64(0)
	if r.node.Raised != 0 {
		raised = r.number(r.node.Raised)
	}
	return fmt.Sprintf("%s %d%s", redlockOwner(r.node.Holder), raised, redlockSaid(r.node.Holder))
}

// redlockSaid is what an owner says of itself, as the scripts want it; every second one says
// nothing.
func redlockSaid(o redlockmodel.Owner) string {
	if o%2 == 0 {
		return ""
	}
	return "\n0 says " + redlockOwner(o)
}

func (r *redlockNode) since() int64 {
	if r.node.Since == 0 {
		return 0
	}
	return r.number(r.node.Since) - minute
}

// redlockKeys contains the keys on the server.
type redlockKeys struct {
	sent, answered      int64 // by the server's clock
	lock, token, memory *redis.StringCmd
	aside               *redis.StringCmd // the other database's memory
	lockTTL, tokenTTL   *redis.DurationCmd
	tombs               []*redis.IntCmd
}

func (r *redlockNode) read(pipe redis.Pipeliner) *redlockKeys {
	ctx := r.t.Context()
	k := &redlockKeys{
		lock: pipe.Get(ctx, r.lock), token: pipe.Get(ctx, r.lock+":token"), memory: pipe.Get(ctx, r.lock+":memory"),
		lockTTL: pipe.PTTL(ctx, r.lock), tokenTTL: pipe.PTTL(ctx, r.lock+":token"),
	}
	for o := range redlockmodel.Owner(redlockOwners) {
		k.tombs = append(k.tombs, pipe.Exists(ctx, r.lock+":tomb:"+redlockOwner(o+1)))
	}
	pipe.Do(ctx, "select", redlockOther)
	k.aside = pipe.Get(ctx, r.lock+":memory")
	pipe.Do(ctx, "select", 0)
	return k
}

// compare looks at the keys. An expiry that is only half of the full time was not set again.
func (r *redlockNode) compare(before redlockmodel.Node, k *redlockKeys) {
	r.t.Helper()
	want := ""
	if r.node.Holder != 0 {
		want = r.lease()
	}
	if got := k.lock.Val(); got != want {
		r.fail("the lock is %q, want %q", got, want)
	}
	if got, want := k.lockTTL.Val() > itest.LongTTL*3/4, r.node.Holder != 0 && r.node.Age == 0; got != want {
		r.fail("the expiry of the lock was set again: %v, want %v", got, want)
	}
	want = ""
	if r.node.Token != 0 {
		want = strconv.FormatInt(r.number(r.node.Token), 10)
	}
	if got := k.token.Val(); got != want {
		r.fail("the counter is %q, want %q", got, want)
	}
	if got, want := k.tokenTTL.Val() > 25*time.Hour, r.node.Token != before.Token; got != want {
		r.fail("the expiry of the counter was set again: %v, want %v", got, want)
	}
	for o, tomb := range k.tombs {
		if got, want := tomb.Val() == 1, r.node.Tombs>>o&1 == 1; got != want {
			r.fail("owner %d has a tombstone: %v, want %v", o+1, got, want)
		}
	}
	memory := strings.Fields(k.memory.Val())
	forgot := func(m redlockmodel.Memory) bool { return m == redlockmodel.Lost || m == redlockmodel.Replaced }
	switch noticed := forgot(before.Memory) && r.node.Memory == redlockmodel.Waiting; {
	case forgot(r.node.Memory):
	case len(memory) != 4 || strings.Join(memory[:2], " ") != r.here:
		r.fail("the memory is %q, want four words, the first of them %s", memory, r.here)
	case noticed && (numberOf(memory, 2) < k.sent || numberOf(memory, 2) > k.answered):
		r.fail("the memory is %q, want since %d", memory, k.sent)
	case !noticed && numberOf(memory, 2) != r.since():
		r.fail("the memory is %q, want since %d", memory, r.since())
	}
	if got, want := k.aside.Val() != "", !before.Aside || r.node.Aside; got != want {
		r.fail("the other database has a memory: %v, want %v", got, want)
	}
}
