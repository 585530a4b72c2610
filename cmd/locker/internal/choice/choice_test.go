package choice_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/choice"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/filebackend"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/pgbackend"
	"github.com/fencedlock/locker/redisbackend"
	"github.com/fencedlock/locker/redlockbackend"
	"github.com/fencedlock/locker/zkbackend"
)

func all() []locker.Guarantees {
	return []locker.Guarantees{
		membackend.Guarantees(), filebackend.Guarantees(), redisbackend.Guarantees(),
		redlockbackend.Guarantees(), etcdbackend.Guarantees(), zkbackend.Guarantees(), pgbackend.Guarantees(),
	}
}

// answers reads "work=other have=redis,etcd".
func answers(t *testing.T, text string) choice.Answers {
	t.Helper()
	a := choice.Answers{}
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		for _, q := range choice.Questions {
			if q.Key != key {
				continue
			}
			words, err := q.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			a[key] = words
		}
	}
	if q, missing := choice.Next(a); missing {
		t.Fatalf("%s: --%s is missing", text, q.Key)
	}
	return a
}

func TestAdvise(t *testing.T) {
	const work = "work=other among=network "
	for _, test := range []struct {
		answers string
		needs   []locker.Requirement
		backend string
		want    string // somewhere in the advice
	}{
		{"work=idempotent", nil, "", "Take no lock"},
		{"work=record", nil, "", "compare-and-swap"},
		{"work=database", nil, "", "FOR UPDATE"},
		{"work=jobs", nil, "", "queue"},
		{"work=other among=process", nil, "", "sync.Mutex"},
		{"work=other among=machine for=efficiency", nil, "file", "nothing to run"},
		{"work=other among=machine for=correctness data=own", nil, "file", "fence.Guard"},
		{work + "for=efficiency have=", nil, "redis", "have to run it"},
		{work + "for=efficiency have=etcd", nil, "etcd", "run it already"},
		{work + "for=efficiency have=redlock", nil, "redlock", "run it already"},
		{work + "for=correctness have=redlock data=own", nil, "redlock", "it refuses the writes of stale holders"},
		{work + "for=efficiency have=redis", []locker.Requirement{locker.ToleranceMinority}, "redlock", "have to run it"},
		{work + "for=correctness have=redis data=own", nil, "redis", "it refuses the writes of stale holders"},
		{work + "for=correctness have=redis data=own", nil, "redis", "run postgres"},
		{work + "for=correctness have=redis data=foreign", nil, "postgres", "idempotency key"},
		{work + "for=correctness have=redis,zookeeper data=sql", nil, "zookeeper", "fence <= $1"},
		{work + "for=correctness have=redis data=postgres", nil, "postgres", "fencepg"}, // it is there: the data lives in it
		// The strictest place decides: no late write is refused where nobody checks a token.
		{work + "for=correctness have=redis data=own,foreign", nil, "postgres", "idempotency key"},
		{work + "for=correctness have=redis data=own,sql", nil, "redis", "fence <= $1"},
		{work + "for=correctness have= data=postgres,redis", nil, "postgres", "each place that can check it"},
		{work + "for=correctness have= data=etcd", nil, "etcd", "fenceetcd"},
		{work + "for=correctness have=postgres data=postgres", nil, "postgres", "max_connections"},
		{work + "for=correctness have=postgres data=foreign", nil, "postgres", "outbox"},
		{work + "for=efficiency have=redis", nil, "redis", "noeviction"},
		{work + "for=correctness have=zookeeper,postgres data=redis", []locker.Requirement{locker.OrderFIFO}, "zookeeper", "fenceredis"},
	} {
		advice, err := choice.Advise(answers(t, test.answers), all(), test.needs...)
		if err != nil || advice.Backend != test.backend {
			t.Errorf("%s: %q, %v, want %q", test.answers, advice.Backend, err, test.backend)
		}
		if text := strings.Join(append(append([]string{advice.Take}, advice.Why...), advice.Also...), "\n"); !strings.Contains(text, test.want) {
			t.Errorf("%s: the advice lacks %q:\n%s", test.answers, test.want, text)
		}
	}
}

// The reasons don't say of a service what holds for files, nor that any backend will do when something is required.
func TestAdviceForOneMachine(t *testing.T) {
	const work = "work=other among=machine for="
	for _, test := range []struct {
		answers string
		needs   []locker.Requirement
		backend string
		want    string
		not     []string
	}{
		{"efficiency", nil, "file", "nothing to run", []string{"have to run"}},
		{"efficiency", nil, "file", "any backend is good enough, so", nil},
		{"efficiency", []locker.Requirement{locker.RequireTTL}, "redis", "have to run it", []string{"nothing to run", "kernel", "any backend is good enough, so"}},
		{"correctness data=own", []locker.Requirement{locker.RequireTTL}, "postgres", "have to run it", []string{"nothing to run", "kernel"}},
	} {
		advice, err := choice.Advise(answers(t, work+test.answers), all(), test.needs...)
		why := strings.Join(advice.Why, "\n")
		if err != nil || advice.Backend != test.backend || !strings.Contains(why, test.want) {
			t.Errorf("%s, %v: %q, %v, %q, want %q and %q", test.answers, test.needs, advice.Backend, err, why, test.backend, test.want)
		}
		for _, text := range test.not {
			if strings.Contains(why, text) {
				t.Errorf("%s, %v: %q, want no %q", test.answers, test.needs, why, text)
			}
		}
	}
}

// A service with a replica is advised where failovers must be survived, by a URL that the backend
// understands.
func TestFailover(t *testing.T) {
	for _, test := range []struct {
		answers string
		need    locker.Requirement
		backend string
		url     string // somewhere in it
	}{
		{"for=correctness have=postgres data=postgres", locker.ScopeNetwork, "postgres", "@db.example/"},
		{"for=correctness have=postgres data=postgres", locker.ToleranceFailover, "postgres", "@db1.example,db2.example/"},
		{"for=efficiency have=redis", locker.ToleranceFailover, "redis", "master_name="},
		{"for=correctness have=redis data=own", locker.ToleranceFailover, "redis", "master_name="},
		{"for=correctness have=etcd data=own", locker.ToleranceFailover, "etcd", "e1.example"},
		{"for=correctness have=postgres data=own", locker.ToleranceMinority, "etcd", "e1.example"},
	} {
		advice, err := choice.Advise(answers(t, "work=other among=network "+test.answers), all(), test.need)
		if err != nil || advice.Backend != test.backend || !strings.Contains(advice.URL, test.url) || !slices.Contains(advice.Require, test.need) {
			t.Errorf("%s, %v: %q, %v, %v, want %q in the URL", test.answers, test.need, advice.URL, advice.Require, err, test.url)
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := locker.Open(ctx, advice.URL); !errors.Is(err, context.Canceled) || errors.Is(err, locker.ErrOption) {
			t.Errorf("Open(%q) = %v, want the error of the context", advice.URL, err)
		}
	}
}

func TestNobodyIsGoodEnough(t *testing.T) {
	a := answers(t, "work=other among=machine for=efficiency")
	_, err := choice.Advise(a, all()[:2], locker.OrderFIFO, locker.RequireTTL)
	if err == nil || !strings.Contains(err.Error(), "mem") || !strings.Contains(err.Error(), "file") {
		t.Errorf("Advise = %v, want an error that says what each lacks", err)
	}
}

// Each path through the flow ends with advice that is complete and meets the requirements.
func TestEveryWayEnds(t *testing.T) {
	ways := 0
	var walk func(a choice.Answers)
	walk = func(a choice.Answers) {
		q, more := choice.Next(a)
		if !more {
			ways++
			check(t, a)
			return
		}
		for _, o := range q.Options {
			next := maps.Clone(a)
			next[q.Key] = []string{o.Word}
			walk(next)
		}
		if q.None {
			next := maps.Clone(a)
			next[q.Key] = nil
			walk(next)
		}
	}
	walk(choice.Answers{})
	if ways < 40 {
		t.Errorf("%d ways, want more than 40", ways)
	}
}

func check(t *testing.T, a choice.Answers) {
	t.Helper()
	advice, err := choice.Advise(a, all())
	if err != nil || advice.Take == "" || len(advice.Why) == 0 {
		t.Errorf("%v: %+v, %v, want an advice with a reason", a, advice, err)
		return
	}
	if advice.Backend == "" {
		return
	}
	for _, g := range all() {
		if g.Backend != advice.Backend {
			continue
		}
		if err := locker.Require(g, advice.Require...); err != nil || len(advice.Require) == 0 {
			t.Errorf("%v: %v is required of %s: %v", a, advice.Require, g.Backend, err)
		}
		if ttl := strings.Contains(advice.URL, "ttl="); ttl != g.Expiry.TTL {
			t.Errorf("%v: %s, want a TTL where the backend has one", a, advice.URL)
		}
	}
	if advice.URL == "" || len(advice.Not) < 2 {
		t.Errorf("%v: %+v, want a URL and what is not promised", a, advice)
	}
	if correct := a["for"][0] == "correctness"; correct != (len(advice.Also) > 1) || len(advice.Also) == 0 || slices.Contains(advice.Also, "") {
		t.Errorf("%v: %q in addition to the lock, want what operators must know, and the check of tokens with correctness alone", a, advice.Also)
	}
	for _, g := range all() {
		if g.Backend == advice.Backend && a["among"][0] == "network" && g.Scope != locker.ScopeNetwork {
			t.Errorf("%v: %s, which keeps apart %v", a, g.Backend, g.Scope)
		}
	}
}

func TestParse(t *testing.T) {
	work, have, data := choice.Questions[0], choice.Questions[3], choice.Questions[4]
	for _, test := range []struct {
		q      choice.Question
		answer string
		want   string // with commas; "!" is an error
	}{
		{work, "jobs", "jobs"},
		{work, " 4 ", "jobs"},
		{work, "0", "!"},
		{work, "6", "!"},
		{work, "", "!"},
		{work, "jobs,record", "!"},
		{have, "", ""},
		{have, "1, etcd", "redis,etcd"},
		{have, "redis,mysql", "!"},
		{data, "", "!"},
		{data, "own,", "!"},
		{data, "own, 1, own", "own,postgres"},
	} {
		words, err := test.q.Parse(test.answer)
		got := strings.Join(words, ",")
		if err != nil {
			got = "!"
		}
		if got != test.want {
			t.Errorf("%s: Parse(%q) = %q, %v, want %q", test.q.Key, test.answer, words, err, test.want)
		}
	}
}
