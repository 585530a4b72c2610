//go:build unix

package redlock

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
	"github.com/fencedlock/locker/internal/redlockmodel"
)

// The scripts of the Redlock backend do on a server what the steps of the model do that the checker
// in internal/redlockmodel is built on: in any order, repeated and late, with keys that expire, and
// on a server that forgets.

// The model's tokens represent numbers near the value that a token must exceed if there is no
// counter: the last full hour minus 24 hours. Tokens from beyond on represent numbers that are
// ahead of the server's clock by more than a minute.
const (
	beyond     = 100
	hour       = 3_600_000_000 // microseconds
	minute     = hour / 60
	waitsLong  = 48 * time.Hour
	waitsShort = time.Minute
	walk       = 20 * time.Second // more than one takes on a busy machine
)

// redlockNode is a lock on a server, and the model of it.
type redlockNode struct {
	t       *testing.T
	admin   *redis.Client
	scripts map[string]string
	here    string // what a note of this server's data begins with
	rng     *rand.Rand

	lock    string
	base    int64 // the number of token 0
	floor   redlockmodel.Token
	node    redlockmodel.Node
	older   *redlockmodel.Node
	other   redlockmodel.Node // in the other database
	history []string
	seen    map[string]int // answers by script
}

// redlockOwners are as many as the model's tombstones have bits.
const redlockOwners = 6

func redlockOwner(o redlockmodel.Owner) string { return fmt.Sprintf("%032d", o) }

// number returns the number of a token.
func (r *redlockNode) number(t redlockmodel.Token) int64 {
	if t >= beyond {
		return r.base + 30*hour + int64(t)
	}
	return r.base + int64(t)
}

func (r *redlockNode) now() int64 {
	r.t.Helper()
	now, err := r.admin.Time(r.t.Context()).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return now.UnixMicro()
}

func redlockFloor(now int64) int64 { return (now/hour - 24) * hour }

// begin takes a lock that is free, for a walk during which the hour doesn't turn.
func (r *redlockNode) begin(lock string) {
	if left := time.Duration(hour-r.now()%hour) * time.Microsecond; left < walk {
		step.Pass(r.t, left+time.Second)
	}
	r.floor = redlockmodel.Token(r.rng.IntN(4))
	r.lock, r.base = lock, redlockFloor(r.now())-int64(r.floor)
	r.node, r.older, r.other, r.history = redlockmodel.Node{}, nil, redlockmodel.Node{}, nil
}

// longest is the longest TTL, by which the server either has waited long enough since it has lost
// its memory, or hasn't.
func (r *redlockNode) longest() time.Duration {
	if r.node.Memory == redlockmodel.Whole {
		return waitsShort
	}
	return waitsLong
}

func (r *redlockNode) keys() []string {
	keys := []string{r.lock, r.lock + ":token", r.lock + ":memory"}
	for o := range redlockmodel.Owner(redlockOwners) {
		keys = append(keys, r.lock+":tomb:"+redlockOwner(o+1))
	}
	return keys
}

// write makes the server's keys those of the model. Expiries are half of what a step would start
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

// redlockOther is another database than that of the lock.
const redlockOther = 7

func (r *redlockNode) lease() string {
	raised := int64(0)
	if r.node.Raised != 0 {
		raised = r.number(r.node.Raised)
	}
	return fmt.Sprintf("%s %d", redlockOwner(r.node.Holder), raised)
}

func (r *redlockNode) since() int64 {
	if r.node.Since == 0 {
		return 0
	}
	return r.number(r.node.Since) - minute
}

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
		args = append(args, redlockOwner(it.owner), r.number(it.token), itest.LongTTL.Milliseconds(), "")
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

func (r *redlockNode) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s, after\n%s", fmt.Sprintf(format, args...), strings.Join(r.history[max(0, len(r.history)-20):], "\n"))
}

// step does something at random.
func (r *redlockNode) step() {
	r.t.Helper()
	any := func() redlockItem {
		it := redlockItem{redlockmodel.Owner(1 + r.rng.IntN(redlockOwners)), redlockmodel.Token(1 + r.rng.IntN(8))}
		switch r.rng.IntN(8) {
		case 0:
			it.token = beyond + it.token
		case 1, 2, 3, 4:
			if r.node.Holder != 0 { // else few would meet what is theirs
				it = redlockItem{r.node.Holder, max(r.node.Raised, r.node.Token, 1) + redlockmodel.Token(r.rng.IntN(2))}
			}
		}
		return it
	}
	note := func(what string) { r.history = append(r.history, what) }
	switch what := r.rng.IntN(100); {
	case what < 64:
		items := make([]redlockItem, 1+r.rng.IntN(2))
		for i := range items {
			items[i] = any()
		}
		script := []string{"acquire", "acquire", "raise", "renew", "release"}[r.rng.IntN(5)]
		if script == "renew" && r.node.Raised != 0 && r.rng.IntN(2) == 0 { // else few would succeed
			items[0] = redlockItem{r.node.Holder, r.node.Raised}
		}
		r.ask(script, items...)
	case what < 71:
		note("the lock expires")
		r.node.Expire()
	case what < 74:
		note("the counter expires")
		r.node.Token = 0
	case what < 77:
		note("the tombstones expire")
		r.node.Tombs = 0
	case what < 79:
		note("all is lost")
		r.node = redlockmodel.Node{Memory: redlockmodel.Lost}
	case what < 82:
		saved := r.node
		r.older = &saved
	case what < 84 && r.older != nil:
		note("the server goes back")
		r.node, r.older = *r.older, nil
		if r.node.Memory = redlockmodel.Lost; r.rng.IntN(2) == 0 {
			note("and lives on")
			r.node.Memory = redlockmodel.Replaced
		}
		r.node.Aside = false
	case what < 86:
		note("the databases are swapped")
		r.node.Swap(&r.other)
	case r.node.Memory == redlockmodel.Waiting:
		note("the server has waited for long enough")
		r.node.Memory = redlockmodel.Whole
	}
}

func redlockScripts(t *testing.T) map[string]string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile("../../redlockbackend/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	include := regexp.MustCompile(`(?m)^-- include (\w+\.lua)$`)
	scripts := make(map[string]string)
	for _, name := range []string{"acquire", "raise", "renew", "release"} {
		scripts[name] = include.ReplaceAllStringFunc(read(name+".lua"), func(line string) string {
			return read(include.FindStringSubmatch(line)[1])
		})
	}
	return scripts
}

func TestRedlockModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := redistest.NewBench(t)
	here, err := redlockIdentity(t.Context(), b.Service.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	r := &redlockNode{
		t: t, admin: b.Admin, scripts: redlockScripts(t), here: here,
		rng: rand.New(rand.NewPCG(seed, 0)), seen: make(map[string]int),
	}
	answers := []string{
		"acquire gone", "acquire held", "acquire granted", "acquire raised", "acquire waits", "raise gone", "raise granted", "raise raised",
		"raise waits", "renew gone", "renew renewed", "renew waits", "release released",
	}
	enough := func() bool { // on a busy machine that takes longer
		return !slices.ContainsFunc(answers, func(a string) bool { return r.seen[a] < 20 })
	}
	steps := 0
	for begin := time.Now(); time.Since(begin) < 3*time.Second || !enough(); {
		if time.Since(begin) > step.Limit {
			t.Fatalf("after %d steps, some answers have been given too seldom: %v", steps, r.seen)
		}
		r.begin(b.Name)
		for range 40 {
			r.step()
			steps++
		}
	}
	b.Admin.Del(t.Context(), r.keys()...)
	t.Logf("%d steps: %v", steps, r.seen)
}
