package redisbackend

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// The records in Redis, the arguments of the scripts and their answers are described in args.lua.
// Go reads and writes them in this file; the messages to Lockers are read in grant_listener.go.

//go:embed *.lua
var files embed.FS

// script is one of the protocol's scripts.
type script struct {
	*redisconn.Script
	selecting *redisconn.Script // the same for a client of a caller's: see select.lua
	only      int               // 0: it gets all keys of a lock; otherwise the one key that it gets, by its number in args.lua
}

var (
	acquireScript = loadScript("acquire.lua", 0)
	renewScript   = loadScript("renew.lua", 0)
	releaseScript = loadScript("release.lua", 0)
	probeScript   = loadProbe()
)

func loadScript(name string, only int) *script {
	s := redisconn.LoadScript(files, name)
	return &script{s, selecting(s.Text), only}
}

// selecting is a script that selects its database first.
func selecting(text string) *redisconn.Script {
	return redisconn.NewScript(redisconn.LoadScript(files, "select.lua").Text + text)
}

// loadProbe loads the script that tries whether SELECT is permitted.
func loadProbe() *script {
	s := redisconn.LoadScript(files, "probe.lua")
	return &script{s, s, 0}
}

// begin appends to words what a call begins with. db is the database that the script selects, and
// goes after all other words; nil: it selects none.
func (s *script) begin(words []any, whole bool, db any) []any {
	if db != nil {
		return s.selecting.Begin(words, whole)
	}
	return s.Begin(words, whole)
}

// databaseOf is the database of a caller's client; nil: a Cluster has one as a rule, and of other
// clients it isn't known.
func databaseOf(client redis.UniversalClient) any {
	if c, ok := client.(*redis.Client); ok {
		return c.Options().DB
	}
	return nil
}

// request is one call of a script.
type request struct {
	script       *script
	key          string // of the lock
	owner        string
	ttl          time.Duration // whole milliseconds
	sent         driver.Instant
	channel      string    // where grants are heard; "": the request must not be queued
	said         string    // a line feed and the label; "": there is none
	late         bool      // of a release: see release.lua
	taking       *taking   // of a break: see break.lua
	polling      bool      // if it fails it will be made again soon
	deadlineOnly bool      // its context ends at its deadline, and never before
	answerBy     time.Time // until when its answer counts; zero: until the end of its context
}

// taking is what a request to break says of the lease that it takes away.
type taking struct {
	token  int64
	mode   string // takeNow, or ""
	breach string
}

const takeNow = "now"

// call is a request on the wire. Most of its words are pointers to the fields after them: a pointer
// in an interface costs nothing, and each value in one would be an allocation.
type call struct {
	words [14]any // EVALSHA, the digest, the number of keys, up to five keys, up to five arguments, and the database
	keys  [5]string
	ttl   int64
	sent  int64
}

const late = "late"

// words are the request on the wire: by digest, or with the whole text of the script. See begin for
// db.
func (r *request) words(whole bool, db any) []any {
	words := r.arguments(whole, db)
	if db != nil {
		words = append(words, db)
	}
	return words
}

// arguments are the words without the database.
func (r *request) arguments(whole bool, db any) []any {
	c := &call{keys: keysOf(r.key, r.owner), ttl: r.ttl.Milliseconds(), sent: int64(r.sent)}
	words := r.script.begin(c.words[:0], whole, db)
	if only := r.script.only; only > 0 {
		words = append(words, 1, &c.keys[only-1])
	} else {
		words = append(words, len(c.keys), &c.keys[0], &c.keys[1], &c.keys[2], &c.keys[3], &c.keys[4])
	}
	words = append(words, &r.owner, &c.ttl)
	switch {
	case r.taking != nil:
		return append(words, &r.taking.token, &r.taking.mode, &r.taking.breach)
	case r.script != releaseScript:
		return append(words, &c.sent, &r.channel, &r.said)
	case r.late:
		return append(words, late)
	}
	return append(words, "")
}

// outcome is the state of an acquisition after a script was executed. The values are as in
// args.lua.
type outcome int64

const (
	gone    outcome = iota // nothing of it exists
	held                   // somebody else has the lock, and nothing of it exists
	queued                 // it has a place in the queue
	granted                // it has the lock
	broken                 // it has the lock, which an operator takes away
)

// reply is what a script answers.
type reply struct {
	outcome outcome
	token   locker.Token   // when granted
	left    time.Duration  // of the holder's lease, when held or queued; negative if somebody has removed its expiry
	heard   bool           // the server sees that we listen for grants
	rank    int            // in the queue, from 0
	breach  *locker.Breach // when broken; when gone, if that is why
}

// grantedWord is what a grant begins with, converted once, because each conversion would allocate.
var grantedWord any = int64(granted)

// The words of answers with a breach; see grantedWord.
var brokenWord, goneWord any = int64(broken), int64(gone)

// parseReply reads an answer: a table, or a value in the place of a table (see args.lua).
func parseReply(answer any) (reply, error) {
	var few [2]any // saves an allocation
	values := few[:0]
	switch v := answer.(type) {
	case int64:
		values = append(values, v)
	case string:
		values = append(values, grantedWord, v)
	case []any:
		values = v
	}
	if len(values) == 2 && (values[0] == brokenWord || values[0] == goneWord) {
		return parseBroken(values)
	}
	var n [4]int64
	for i, v := range values[:min(len(values), len(n))] {
		switch v := v.(type) {
		case int64:
			n[i] = v
		case string:
			var err error
			if n[i], err = strconv.ParseInt(v, 10, 64); err != nil {
				return reply{}, fmt.Errorf("invalid answer of a script: %q instead of a number", v)
			}
		default:
			return reply{}, fmt.Errorf("invalid answer of a script: a %T instead of a number", v)
		}
	}
	r := reply{outcome: outcome(n[0])}
	want := 1
	switch r.outcome {
	case gone:
	case held:
		want = 3
	case queued:
		want, r.rank = 4, int(n[3])
	case granted:
		want, r.token = 2, locker.Token(n[1])
	default:
		want = 0
	}
	if len(values) != want {
		return reply{}, fmt.Errorf("invalid answer of a script: %v", answer)
	}
	if r.outcome == held || r.outcome == queued {
		r.left, r.heard = time.Duration(n[1])*time.Millisecond, n[2] > 0
	}
	return r, nil
}

// parseBroken reads an answer that contains a breach.
func parseBroken(values []any) (reply, error) {
	text, ok := values[1].(string)
	if !ok {
		return reply{}, fmt.Errorf("invalid answer of a script: a %T instead of a breach", values[1])
	}
	breach := driver.ParseBreach(text)
	return reply{outcome: outcome(values[0].(int64)), breach: &breach}, nil
}

// said is what the scripts put behind a lease or a place: the label as a line of its own.
func said(label driver.Label) string {
	text := label.String()
	if text == "" {
		return ""
	}
	return "\n" + text
}

// lease is what the value of a lock's key says.
type lease struct {
	owner  string
	token  locker.Token
	label  string
	breach *locker.Breach // with which it is marked; nil: it isn't
}

// parseLease reads the value of a lock's key. The label may be empty.
func parseLease(value string) (lease, error) {
	line, rest, _ := strings.Cut(value, "\n")
	line, marked := strings.CutPrefix(line, "!")
	owner, text, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return lease{}, fmt.Errorf("invalid value of the lock's key: want OWNER TOKEN, and it is %.100q", value)
	}
	label, rest, _ := strings.Cut(rest, "\n")
	l := lease{owner: owner, token: locker.Token(n), label: label}
	if marked {
		text, _, _ := strings.Cut(rest, "\n")
		breach := driver.ParseBreach(text)
		l.breach = &breach
	}
	return l, nil
}

// parseScan reads the answer to SCAN.
func parseScan(answer any) (keys []string, cursor uint64, err error) {
	values, _ := answer.([]any)
	if len(values) == 2 {
		text, _ := values[0].(string)
		list, ok := values[1].([]any)
		cursor, err = strconv.ParseUint(text, 10, 64)
		for _, value := range list {
			key, _ := value.(string)
			keys = append(keys, key)
		}
		if ok && err == nil {
			return keys, cursor, nil
		}
	}
	return nil, 0, fmt.Errorf("invalid answer to SCAN: %.100v", answer)
}
