//go:build unix

package redis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// The scripts of the Redis backend behave on a server as their model does (queue_model_test.go), in
// any order in which requests can arrive: with late copies, with waiters that are dead or don't
// listen, with leases that expire, and with a server that goes back to older data.

// subscriber is a connection that listens on a channel.
type subscriber struct {
	sub   *redis.PubSub
	ended chan struct{}
	heard []string // owner and token of each grant; to be read when it has ended
}

// modelled is a lock on a server, and the model of it.
type modelled struct {
	*Bench
	model
	rng         *rand.Rand
	subscribers map[string]*subscriber
	notified    map[string][]string // what the subscriber of each channel must have received
	last        int64               // token
	history     []string
}

func (r *modelled) listens(channel string) bool { return r.subscribers[channel] != nil }

func (r *modelled) open(channel string) {
	sub := r.Admin.WithTimeout(0).Subscribe(r.t.Context(), channel)
	if _, err := sub.Receive(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = sub.Close() })
	e := &subscriber{sub: sub, ended: make(chan struct{})}
	r.subscribers[channel], r.notified[channel] = e, nil
	go func() {
		defer close(e.ended)
		for {
			message, err := sub.Receive(r.t.Context())
			switch m := message.(type) {
			case *redis.Subscription:
				return
			case *redis.Message:
				if words := strings.Fields(m.Payload); len(words) == 4 {
					e.heard = append(e.heard, words[0]+" "+words[1])
				}
			}
			if err != nil {
				return
			}
		}
	}()
}

// close ends a subscriber, which has heard by then what was sent before.
func (r *modelled) close(channel string) {
	r.t.Helper()
	e := r.subscribers[channel]
	delete(r.subscribers, channel)
	if err := e.sub.Unsubscribe(r.t.Context(), channel); err != nil {
		r.t.Fatal(err)
	}
	<-e.ended
	_ = e.sub.Close()
	if !slices.Equal(e.heard, r.notified[channel]) {
		r.fail("on %s the grants %q were heard, want %q", channel, e.heard, r.notified[channel])
	}
}

// ask sends a request, executes it in the model, too, and compares the results.
func (r *modelled) ask(a *acquisition, script, channel, late string) {
	r.t.Helper()
	want, notified := r.execute(script, a.owner, channel, late != "", r.listens)
	got := a.call(script, channel, late)
	r.note("%s %s by %s on %q: %v", script, late, a.owner, channel, got)
	for i, n := range want {
		if n >= 0 && got[i] != n {
			r.fail("the answer is %v, want %v", got, want)
		}
	}
	r.compare()
	if notified != "" {
		r.notified[notified] = append(r.notified[notified], fmt.Sprint(r.holder, " ", r.token))
	}
	if want[0] == isGranted && got[1] != strconv.FormatInt(r.token, 10) {
		r.fail("the answer is %v, want token %d", got, r.token)
	}
}

func (r *modelled) compare() {
	r.t.Helper()
	owners := make([]string, 0, len(r.places))
	for _, p := range r.places {
		owners = append(owners, p.owner)
	}
	pipe := r.Admin.Pipeline()
	lock := pipe.Get(r.t.Context(), key(r.Name))
	queue := pipe.ZRange(r.t.Context(), key(r.Name)+":queue", 0, -1)
	places := pipe.HKeys(r.t.Context(), key(r.Name)+":waiters")
	_, _ = pipe.Exec(r.t.Context())
	lease, _, _ := strings.Cut(lock.Val(), "\n")
	holder, text, _ := strings.Cut(lease, " ")
	token, _ := strconv.ParseInt(text, 10, 64)
	switch {
	case holder != r.holder:
		r.fail("%q has the lock, want %q", holder, r.holder)
	case holder != "" && r.token == 0 && token <= r.last:
		r.fail("token %d after %d", token, r.last)
	case holder != "" && r.token != 0 && token != r.token:
		r.fail("the token is %d, and was %d", token, r.token)
	case lock.Val() != lease+saidBy(holder):
		r.fail("the lease is %q, want it with %q", lock.Val(), saidBy(holder))
	}
	r.token, r.last = token, max(r.last, token)
	slices.Sort(places.Val())
	if !slices.Equal(queue.Val(), owners) || !slices.Equal(places.Val(), slices.Sorted(slices.Values(owners))) {
		r.fail("in the queue are %q, with the places of %q, want %q", queue.Val(), places.Val(), owners)
	}
}

func (r *modelled) note(format string, args ...any) {
	r.history = append(r.history, fmt.Sprintf(format, args...))
}

func (r *modelled) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s, after\n%s", fmt.Sprintf(format, args...), strings.Join(r.history[max(0, len(r.history)-20):], "\n"))
}

// save returns a function that restores the present state, on the server and in the model.
func (r *modelled) save() (restore func()) {
	data, m := r.dump(), r.model
	m.places, m.buried = slices.Clone(r.places), maps.Clone(r.buried)
	return func() {
		r.load(data)
		r.model = m
	}
}

func TestRedisModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &modelled{
		Bench:       NewBench(t),
		model:       model{buried: make(map[string]bool)},
		rng:         rand.New(rand.NewPCG(seed, 0)),
		subscribers: make(map[string]*subscriber),
		notified:    make(map[string][]string),
	}
	channels := []string{"", r.Name + " one", r.Name + " two", r.Name + " three"}
	var all []*acquisition
	any := func() *acquisition { return all[max(0, len(all)-1-r.rng.IntN(8))] }
	var older func() // brings back an earlier state
	for begin := time.Now(); time.Since(begin) < 3*time.Second; {
		switch what := r.rng.IntN(100); {
		case what < 25 || len(all) == 0:
			all = append(all, r.acquisition(channels[r.rng.IntN(len(channels))]))
			a := all[len(all)-1]
			r.ask(a, "acquire", a.channel, "")
		case what < 35:
			a := any()
			r.ask(a, "acquire", []string{a.channel, ""}[r.rng.IntN(2)], "")
		case what < 55:
			a := any()
			r.ask(a, "renew", a.channel, "")
		case what < 80:
			r.ask(any(), "release", "", []string{"", "", "", "late"}[r.rng.IntN(4)])
		case what < 85:
			r.note("the lease expires")
			r.Admin.Del(t.Context(), key(r.Name))
			r.holder = ""
		case what < 90 && len(r.places) > 0:
			p := &r.places[r.rng.IntN(len(r.places))]
			thirds := 2 + r.rng.IntN(2)
			p.age += thirds
			r.note("%s is stale: %v, dead: %v", p.owner, p.stale(), p.dead())
			i := slices.IndexFunc(all, func(a *acquisition) bool { return a.owner == p.owner })
			r.age(all[i], itest.LongTTL/3*time.Duration(thirds))
		case what < 96:
			channel := channels[1+r.rng.IntN(len(channels)-1)]
			r.note("%q listens: %v", channel, !r.listens(channel))
			if r.listens(channel) {
				r.close(channel)
			} else {
				r.open(channel)
			}
		case what < 98:
			older = r.save()
		case older != nil:
			r.note("the server goes back")
			older()
			older = nil
			r.compare()
		}
	}
	t.Logf("%d steps of %d acquisitions", len(r.history), len(all))
	for _, a := range all {
		r.ask(a, "release", "", "")
	}
	for _, channel := range channels[1:] {
		if r.listens(channel) {
			r.close(channel)
		}
	}
	r.empty()
}
