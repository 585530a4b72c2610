//go:build unix

package redlock

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
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
	for _, name := range []string{"acquire", "raise", "renew", "release", "break"} {
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
