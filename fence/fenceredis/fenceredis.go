// Package fenceredis checks fencing tokens in Redis, Valkey, or a Cluster of them, and so guards
// the data that is stored there. The lock may come from any backend.
//
//	mark := fenceredis.Mark{Client: client, Key: "{invoice:42}:fence"}
//	if err := mark.Claim(ctx, lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	total, err := mark.Do(ctx, lease.Token(), "GET", "{invoice:42}")
//	…
//	_, err = mark.Do(ctx, lease.Token(), "SET", "{invoice:42}", total)
//
// # Reading
//
// Read through the mark, as above, or with a client that asks the master. A client that may read
// from replicas (a [redis.ClusterClient] with ReadOnly, RouteByLatency or RouteRandomly, a client
// made by [redis.NewFailoverClusterClient]), or that keeps answers (ClientSideCacheConfig), can get data
// that lacks the predecessor's last write. What is computed from that data is then written with a valid token.
//
// # The client
//
// The client must execute commands at once, on the server that has the data: a [redis.Client], also
// one for Sentinels, a [redis.ClusterClient], a [redis.Conn] or a [redis.Tx]. Two kinds are refused
// with an error that matches [errors.ErrUnsupported], before anything is sent:
//
//   - a client that queues: a [redis.Pipeliner], also TxPipelined's, and a [redis.AutoPipeliner].
//     In a pipeline the result of a claim isn't known when the write is queued, and MULTI doesn't
//     undo the write when the claim is refused. In Do and Run the claim and the write are one step;
//   - a [redis.Ring]. It sends a script to the server of the mark's key, and reads the data from
//     the server of the data's key.
//
// Don't send MULTI on a connection that a mark uses. There a claim is refused with an error that
// matches [errors.ErrUnsupported]. Do and Run only answer "QUEUED": a stale token's command is not
// executed, but that is known only after EXEC.
//
// Don't send SELECT on such a connection either. A connection that another part of the program has
// sent to another database (a [redis.Conn], or one that a shared client has put back into its pool)
// has another mark and other data there, so a stale token may pass. Use a client of the mark's own if
// the program selects databases.
//
// # The mark
//
// A mark is a key next to the data. It never expires: if another client puts an expiry on it, the
// next claim that is accepted removes that. Don't lose the mark without the data: don't evict it (use
// the policy noeviction, or a volatile one), and don't flush one without the other. A key that holds
// anything but a token is not claimed, and isn't changed.
//
// The server must not forget a mark that it has acknowledged, or a stale token passes. To survive a
// crash, the log must be on the disk before the answer: appendonly yes and appendfsync always. A
// failover to a replica loses the latest marks together with the latest writes, and no setting
// changes that.
//
// The server's user needs the permissions +eval, +evalsha, +get, +set and +persist on the mark, and
// the permissions of the caller's commands.
package fenceredis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// Mark is the highest token that one resource has seen. Its methods are safe for concurrent use if
// the client's are.
type Mark struct {
	Client redis.Scripter // of the server that has the data; see the package comment
	Key    string         // of the mark; in a Cluster with the hash tag of the data
}

var (
	// ErrInexact says that Do has executed the command, but can't return its integer: a script
	// rounds integers from 2^53 on, and likewise below zero. Read it with GET or HGET, which reply
	// text.
	ErrInexact = errors.New("the command was executed, but its result is too large an integer for a script to return")

	// ErrNoToken says that the mark's key holds something that isn't a token. Perhaps it is the key
	// of something else by mistake. Nothing was changed. (If it is a list or another type that isn't
	// text, the error is Redis' own: WRONGTYPE.)
	ErrNoToken = errors.New("the mark's key holds something that is not a token")
)

// maxArgs is how many arguments after the key a command of Do may have: a script can pass on
// slightly less than 8000.
const maxArgs = 7000

// Claim raises the mark to token, or fails with an error that matches [fence.ErrStale]; see
// [fence.Guard]. It may be called any number of times.
func (m Mark) Claim(ctx context.Context, token locker.Token) error {
	result, err := m.run(ctx, claimOnly, token, nil, nil)
	if err == nil && result != int64(1) { // QUEUED: MULTI was sent on this connection
		return m.unsupported(fmt.Sprintf("its answer to a claim is %v", result))
	}
	return err
}

// ClaimFrom is [Mark.Claim] with the token of the lease in ctx, which comes from [locker.Do] or
// [locker.WithLease]. It returns that token, for Do and Run. Where locks are nested, the lease is
// the one whose name is the mark's Key. If lock and mark have different names, find the token by
// the lock's name with [fence.TokenFrom], which has the rule and the errors, and use Claim.
func (m Mark) ClaimFrom(ctx context.Context) (locker.Token, error) {
	token, err := fence.TokenFrom(ctx, m.Key)
	if err == nil {
		err = m.Claim(ctx, token)
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}

// Do claims, and executes one command whose first argument is its key, in one step: GET, SET, HSET,
// DEL, INCRBY and most others. The command may have 7000 arguments after the key. The key must not
// be the mark's, and neither must any further argument that the command takes for a key. When the
// token is stale, the command is not executed. The result is the command's; a reply of nil is
// [redis.Nil]. When the command fails, the claim is valid all the same. After an error that matches
// [ErrInexact] the command has been executed.
//
// The command is sent once, whatever the client's MaxRetries says. So after an error that matches
// [fence.ErrStale] this call has written nothing. After an error of the connection the command may
// have been executed; a further call is another command, and INCRBY then adds twice. (A client
// without a method Process may send it more than once; all clients of go-redis have that method.)
//
// Such a command may also be executed later, and undo what this lease has written since: the network may
// still have it when its connection is closed. So acquire the lock again after such an error, and claim with
// the new token, which shuts the late command out; or compare and set, with Run.
//
// A client without ContextTimeoutEnabled lets ctx bound nothing that is under way, as with all commands of
// go-redis.
func (m Mark) Do(ctx context.Context, token locker.Token, command, key string, args ...any) (any, error) {
	if len(args) > maxArgs {
		return nil, fmt.Errorf("fence: %q: invalid command with %d arguments: want at most %d", m.Key, len(args), maxArgs)
	}
	return m.run(ctx, oneCommand, token, []string{key}, append([]any{command}, args...))
}

// Run claims, and runs a script of the caller's, in one step. In the script, KEYS and ARGV are keys
// and args, as if it were run alone; the mark's key is not among them. When the token is stale, the
// script is not run. The result is the script's, with the numbers of Lua: integers from 2^53 on are
// rounded, and fractions are cut off. Text is not changed. An error of the script's own is returned
// unchanged. Like the command of Do, the script is sent once.
func (m Mark) Run(ctx context.Context, token locker.Token, s *Script, keys []string, args ...any) (any, error) {
	if s == nil || s.script == nil {
		return nil, fmt.Errorf("fence: %q: the script is nil or empty: want one of NewScript", m.Key)
	}
	return m.run(ctx, s, token, keys, args)
}

// Script is a text in Lua that [Mark.Run] runs after a claim. It is safe for concurrent use.
type Script struct {
	text   string
	script *redis.Script
}

// NewScript makes a Script of a text that would run alone. It must have no shebang line (#!lua).
func NewScript(text string) *Script { return newScript(claimText + restText + text) }

func newScript(text string) *Script { return &Script{text, redis.NewScript(text)} }

var (
	//go:embed claim.lua
	claimText string
	//go:embed command.lua
	commandText string
	//go:embed script.lua
	restText string
)

var (
	claimOnly  = newScript(claimText + "return 1")
	oneCommand = newScript(claimText + commandText)
)

func (m Mark) run(ctx context.Context, s *Script, token locker.Token, keys []string, args []any) (any, error) {
	if err := m.check(keys); err != nil {
		return nil, err
	}
	if err := fence.CheckToken(token); err != nil {
		return nil, err
	}
	cmd := s.send(ctx, m.Client, append([]string{m.Key}, keys...), append([]any{int64(token)}, args...))
	result, err := cmd.Result()
	switch {
	case err == nil && result == nil: // a server answers something, be it redis.Nil
		return nil, m.unsupported("it has queued the claim, or not sent it")
	case err == nil || errors.Is(err, redis.Nil):
		return result, err
	}
	return nil, m.explain(err, token)
}

// check refuses invalid marks and keys before anything is sent.
func (m Mark) check(keys []string) error {
	switch {
	case m.Key == "":
		return errors.New("fence: the mark has no key")
	case slices.Contains(keys, m.Key):
		return fmt.Errorf("fence: %q: the key of the mark is that of the data; give the mark a key of its own", m.Key)
	}
	if v := reflect.ValueOf(m.Client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("fence: %q: the mark has no client: it is nil", m.Key)
	}
	switch m.Client.(type) {
	case redis.Pipeliner, *redis.AutoPipeliner:
		return m.unsupported("it queues commands, and the claim would be known after the write; use Do or Run with the client itself")
	case interface{ SetAddrs(addrs map[string]string) }: // a Ring, or what has one in it
		return m.unsupported("a redis.Ring may keep the data on another server than the mark")
	}
	return nil
}

func (m Mark) unsupported(why string) error {
	return fmt.Errorf("fence: %q: %w: a client of type %T: %s", m.Key, errors.ErrUnsupported, m.Client, why)
}

// explain turns the replies of this package's scripts into errors. Their first word is one that no
// caller's script replies by accident.
func (m Mark) explain(err error, token locker.Token) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		text, ours := strings.CutPrefix(reply.Error(), "LOCKERFENCE ")
		highest, stale := strings.CutPrefix(text, "stale ")
		switch {
		case !ours:
		case stale:
			n, _ := strconv.ParseInt(highest, 10, 64) // claim.lua has checked it
			return &fence.StaleError{Resource: m.Key, Token: token, Highest: locker.Token(n)}
		case text == "no token":
			err = ErrNoToken
		case text == "inexact":
			err = ErrInexact
		}
	}
	return fmt.Errorf("fence: %q: %w", m.Key, err)
}
