package redisconn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"regexp"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua text that a server executes as a whole. A server that has seen it knows it by its
// digest.
type Script struct {
	Text string

	// What a call begins with. It is made once, because each conversion would allocate.
	whole, byDigest [2]any
}

// LoadScript reads a script that is built in. It panics if a file is missing. A line "-- include
// FILE" is replaced by that file.
func LoadScript(files fs.FS, name string) *Script { return NewScript(include(files, name)) }

// NewScript makes a script of its text.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text, [2]any{"eval", text}, [2]any{"evalsha", hex.EncodeToString(sum[:])}}
}

var includeLine = regexp.MustCompile(`(?m)^-- include (\w+\.lua)$`)

func include(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err)
	}
	return includeLine.ReplaceAllStringFunc(string(text), func(line string) string {
		return include(files, includeLine.FindStringSubmatch(line)[1])
	})
}

// Begin appends to words what a call begins with. whole: the call has the whole text of the script,
// instead of its digest. What follows is the number of keys, the keys, and the arguments.
func (s *Script) Begin(words []any, whole bool) []any {
	if whole {
		return append(words, s.whole[:]...)
	}
	return append(words, s.byDigest[:]...)
}

// Command is a command that go-redis doesn't send again by itself.
type Command struct {
	*redis.Cmd
	answered bool
	passedOn error // why a Cluster sent it to another server, until that server's result is known
}

// NewCommand makes a command of words.
func NewCommand(ctx context.Context, words ...any) *Command {
	return &Command{Cmd: redis.NewCmd(ctx, words...)}
}

// NewCommand makes a command of words. Some of them may be pointers to strings and to int64, which
// saves allocations. Hooks of a caller's client would show pointers as addresses, so for such a
// client the values take their place.
func (c *Conn) NewCommand(ctx context.Context, words []any) *Command {
	if c.pool == nil {
		for i, word := range words {
			switch word := word.(type) {
			case *string:
				words[i] = *word
			case *int64:
				words[i] = *word
			}
		}
	}
	return NewCommand(ctx, words...)
}

// NoRetry switches the retries of go-redis off for this command.
func (*Command) NoRetry() bool { return true }

// SetErr is called by go-redis. It distinguishes errors after which go-redis tries another server
// of a Cluster from errors that end a command:
//
//   - go-redis gives a command whose connection breaks no new error if the command has one. An
//     error of an earlier server would then say that the command was not executed.
//   - go-redis gives the answered commands of a pipeline the error of one that follows them. They
//     keep their answer here. They don't get a second answer, because there are no retries.
func (c *Command) SetErr(err error) {
	if c.answered {
		return
	}
	c.answered = err == nil && c.Val() != nil // all scripts answer something; nil also comes without an answer
	c.passedOn = nil
	if err != nil && (Unsent(err) || Says(err, "MOVED", "ASK")) {
		c.passedOn, err = err, nil
	}
	c.Cmd.SetErr(err)
}

// Err returns the error of the command.
func (c *Command) Err() error {
	if c.passedOn != nil {
		return c.passedOn
	}
	return c.Cmd.Err()
}

// Result returns the answer.
func (c *Command) Result() (any, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	return c.Val(), nil
}
