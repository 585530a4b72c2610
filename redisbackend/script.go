package redisbackend

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// The scripts, whose lines "-- include FILE" stand for that file.
//
//go:embed *.lua
var texts embed.FS

var (
	acquireScript = newScript("acquire.lua")
	renewScript   = newScript("renew.lua")
	releaseScript = newScript("release.lua")
	probeScript   = newScript("probe.lua")
)

// script is a text that a server executes as a whole, and knows by its digest once it has seen it.
type script struct {
	text, digest string
	only         int // 0: it gets all keys of a lock; else the one key that it gets, by its number in args.lua
}

func newScript(name string) *script {
	text := read(name)
	sum := sha1.Sum([]byte(text))
	return &script{text: text, digest: hex.EncodeToString(sum[:])}
}

var include = regexp.MustCompile(`(?m)^-- include (\w+\.lua)$`)

// read returns a file with those that it includes.
func read(name string) string {
	text, err := texts.ReadFile(name)
	if err != nil {
		panic(err) // it was not built in
	}
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return read(include.FindStringSubmatch(line)[1])
	})
}

// request is one call of a script.
type request struct {
	script  *script
	key     string // of the lock
	owner   string
	ttl     time.Duration // whole milliseconds
	sent    driver.Instant
	channel string
	late    bool // see release.lua
	polls   bool // it will be made again soon
}

// command puts r on the wire: by digest, or with the whole text.
func (r *request) command(ctx context.Context, whole bool) *command {
	name, script := "evalsha", r.script.digest
	if whole {
		name, script = "eval", r.script.text
	}
	keys := keysOf(r.key, r.owner)
	args := append(make([]any, 0, 12), name, script)
	if only := r.script.only; only > 0 {
		args = append(args, 1, keys[only-1])
	} else {
		args = append(args, len(keys), keys[0], keys[1], keys[2], keys[3], keys[4])
	}
	args = append(args, r.owner, r.ttl.Milliseconds())
	switch {
	case r.script != releaseScript:
		args = append(args, int64(r.sent), r.channel)
	case r.late:
		args = append(args, "late")
	default:
		args = append(args, "")
	}
	return &command{Cmd: redis.NewCmd(ctx, args...)}
}

// command is one that go-redis must not send again by itself: whoever asked has to know that it may arrive twice.
type command struct {
	*redis.Cmd
	answered bool
	passed   error // why it went on to another server of the Cluster, if nothing is known of that one
}

func (*command) NoRetry() bool { return true }

// SetErr keeps the errors after which go-redis tries another server of a Cluster apart from those that end a command.
// It gives a command on a connection that breaks no error if it has one, and one from before would say that the command
// was not carried out. It gives those of a message that were answered the error of one behind them; they keep their
// answer, and as there are no retries they don't get another.
func (c *command) SetErr(err error) {
	if c.answered {
		return
	}
	c.answered = err == nil && c.Val() != nil // all scripts answer something; nil also comes without an answer
	c.passed = nil
	if err != nil && (redisconn.Unsent(err) || redisconn.Says(err, "MOVED", "ASK")) {
		c.passed, err = err, nil
	}
	c.Cmd.SetErr(err)
}

func (c *command) Err() error {
	if c.passed != nil {
		return c.passed
	}
	return c.Cmd.Err()
}

// result is the answer as a table, also where it is shorter on the wire.
func (c *command) result() ([]any, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	switch v := c.Val().(type) {
	case int64:
		return []any{v}, nil
	case string:
		return []any{int64(granted), v}, nil
	}
	return c.Slice()
}

// standing is where an acquisition stands when a script has been carried out. The values are those of args.lua.
type standing int64

const (
	gone    standing = iota // nothing of it stands
	refused                 // somebody else has the lock, and nothing of it stands
	queued                  // it has a place in the queue
	granted                 // it has the lock
)

// reply is what a script answers.
type reply struct {
	standing standing
	token    locker.Token  // when granted
	left     time.Duration // of the holder's lease, when refused or queued; negative where somebody has taken its end away
	heard    bool          // the server sees that we listen for grants
	rank     int           // in the queue, from 0
}

func parseReply(values []any) (reply, error) {
	var n [4]int64
	for i, v := range values[:min(len(values), len(n))] {
		switch v := v.(type) {
		case int64:
			n[i] = v
		case string:
			var err error
			if n[i], err = strconv.ParseInt(v, 10, 64); err != nil {
				return reply{}, fmt.Errorf("the answer of a script has %q for a number", v)
			}
		default:
			return reply{}, fmt.Errorf("the answer of a script has a %T for a number", v)
		}
	}
	r := reply{standing: standing(n[0])}
	want := 1
	switch r.standing {
	case gone:
	case refused:
		want = 3
	case queued:
		want, r.rank = 4, int(n[3])
	case granted:
		want, r.token = 2, locker.Token(n[1])
	default:
		want = 0
	}
	if len(values) != want {
		return reply{}, fmt.Errorf("the answer of a script is %v, which is none that it gives", values)
	}
	if r.standing == refused || r.standing == queued {
		r.left, r.heard = time.Duration(n[1])*time.Millisecond, n[2] > 0
	}
	return r, nil
}
