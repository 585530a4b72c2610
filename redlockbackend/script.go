package redlockbackend

import (
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// The records in Redis, the arguments of the scripts and their answers are described in args.lua
// and in the scripts. Go reads and writes them in this file only.

//go:embed *.lua
var files embed.FS

var (
	acquireScript = redisconn.LoadScript(files, "acquire.lua")
	raiseScript   = redisconn.LoadScript(files, "raise.lua")
	renewScript   = redisconn.LoadScript(files, "renew.lua")
	releaseScript = redisconn.LoadScript(files, "release.lua")
	enterScript   = redisconn.LoadScript(files, "enter.lua")
	breakScript   = redisconn.LoadScript(files, "break.lua")
	probeScript   = redisconn.LoadScript(files, "probe.lua")
)

// item is what a script is to do about one lock, in the words that are sent. They are the same for
// all servers and are made once, because each costs an allocation.
type item struct{ key, owner, token, ttl, ticket, said any }

// nothingSaid is in the place of a label that isn't needed, converted once.
var nothingSaid any = ""

// said is what the scripts put behind a lease or a place: the label as a line of its own.
func said(label driver.Label) any {
	text := label.String()
	if text == "" {
		return nothingSaid
	}
	return "\n" + text
}

// newItem makes an item. The token is 0 where it has no meaning. The ticket is when the acquisition
// began to wait; 0: it doesn't. said is a line feed and the label, or "".
func newItem(key, owner string, token locker.Token, ttl time.Duration, ticket int64, said any) *item {
	it := &item{key: key, owner: owner, token: int64(token), ttl: ttl.Milliseconds(), ticket: "", said: said}
	if ticket != 0 {
		it.ticket = ticket
	}
	return it
}

// call is one script for some locks. The keys and arguments are as in args.lua.
type call struct {
	script  *redisconn.Script
	server  *serverWords
	channel any // a string
	items   []*item
	mode    string // of enterScript
}

// serverWords are the words that are the same in all calls to a server.
type serverWords struct {
	memory any // the key of the server's memory
	maxTTL any // the longest TTL
	db     any // the database that the client selects
}

func newServerWords(memory string, maxTTL time.Duration, db int) *serverWords {
	return &serverWords{memory: memory, maxTTL: maxTTL.Milliseconds(), db: db}
}

// words are the call on the wire: by digest, or with the whole text of the script.
func (c *call) words(whole bool) []any {
	words := c.script.Begin(make([]any, 0, 8+6*len(c.items)), whole)
	words = append(words, 1+len(c.items), c.server.memory)
	for _, it := range c.items {
		words = append(words, it.key)
	}
	words = append(words, c.server.maxTTL, c.channel, c.server.db)
	for _, it := range c.items {
		words = append(words, it.owner, it.token, it.ttl, it.ticket, it.said)
	}
	if c.script == enterScript {
		words = append(words, c.mode)
	}
	return words
}

// verdict is what a server says about an item. The words are the scripts'.
type verdict string

const (
	raised   verdict = "raised"
	granted  verdict = "granted"
	held     verdict = "held"
	gone     verdict = "gone"
	renewed  verdict = "renewed"
	released verdict = "released"
	refused  verdict = "refused"
	broken   verdict = "broken"
	marked   verdict = "marked"
	ended    verdict = "ended"

	ready   verdict = "ready"
	waits   verdict = "waits"
	differs verdict = "differs"
	unknown verdict = "new"
	known   verdict = "known"
)

// reply is a server's answer about an item, or what came instead.
type reply struct {
	verdict verdict
	counter locker.Token   // granted: what a token must exceed; raised: the token
	limit   locker.Token   // granted: what it must not
	left    time.Duration  // held: of the holder's lease, marked: of the lease, negative if somebody has removed its expiry; waits: of the wait
	rank    int            // held: how many came to wait before
	owner   string         // held: who has it
	max     time.Duration  // differs: the longest TTL that the server knows
	text    string         // refused: why
	breach  *locker.Breach // broken: with which the lease is marked; gone: who has ended it, if that is known
	err     error          // there is no answer
}

// parseReplies reads the answer to a call about n items: a text for each, or one for all.
func parseReplies(val any, n int) ([]reply, error) {
	replies := make([]reply, n)
	if all, ok := val.(string); ok {
		r, err := parseReply(all)
		for i := range replies {
			replies[i] = r
		}
		return replies, err
	}
	list, ok := val.([]any)
	if !ok || len(list) != n {
		return nil, fmt.Errorf("invalid answer of a script: %v", val)
	}
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("invalid answer of a script: a %T instead of a text", v)
		}
		var err error
		if replies[i], err = parseReply(text); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func parseReply(s string) (reply, error) {
	word, rest, _ := strings.Cut(s, " ")
	r := reply{verdict: verdict(word)}
	var err error
	switch r.verdict {
	case broken:
		r.breach = breachOf(rest)
	case gone:
		if rest != "" {
			r.breach = breachOf(rest)
		}
	case raised, renewed, released, ended, ready, unknown, known:
		if rest != "" {
			err = strconv.ErrSyntax
		}
	case refused:
		r.text = rest
	case waits, marked:
		err = numbers(rest, func(n []int64) { r.left = milliseconds(n[0]) }, 1)
	case differs:
		err = numbers(rest, func(n []int64) { r.max = milliseconds(n[0]) }, 1)
	case granted:
		err = numbers(rest, func(n []int64) { r.counter, r.limit = locker.Token(n[0]), locker.Token(n[1]) }, 2)
	case held:
		end := strings.LastIndexByte(rest, ' ') + 1
		r.owner = strings.TrimPrefix(rest[end:], "!") // whether it is marked or not
		err = numbers(rest[:max(end-1, 0)], func(n []int64) { r.left, r.rank = milliseconds(n[0]), int(n[1]) }, 2)
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return reply{}, fmt.Errorf("invalid answer of a script: %q", s)
	}
	return r, nil
}

// parseMessage reads what a waiter hears: "KEY" if the lock is free, or "KEY MILLISECONDS" within which to ask.
// The key of a lock ends with a brace or with its slot, so no key looks like the latter.
func parseMessage(text string) (key string, free bool, within time.Duration) {
	at := strings.LastIndexByte(text, ' ')
	if n, err := strconv.ParseInt(text[at+1:], 10, 64); err == nil && at >= 0 {
		return text[:at], false, milliseconds(n)
	}
	return text, true, 0
}

func breachOf(text string) *locker.Breach {
	b := driver.ParseBreach(text)
	return &b
}

func numbers(text string, take func([]int64), want int) error {
	fields := strings.Split(text, " ")
	if len(fields) != want {
		return strconv.ErrSyntax
	}
	n := make([]int64, want)
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseInt(f, 10, 64); err != nil {
			return err
		}
	}
	take(n)
	return nil
}

// milliseconds makes a duration of a number from a server, which may be any number.
func milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(min(n, most), -1)) * time.Millisecond
}
