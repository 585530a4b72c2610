// Package fenceredis checks fencing tokens in Redis, Valkey, or a Cluster of them, where the data is guarded that lives
// there. The lock may be of any backend.
//
//	mark := fenceredis.Mark{Client: client, Key: "{invoice:42}:fence"}
//	if err := mark.Claim(ctx, lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	total, err := client.Get(ctx, "{invoice:42}").Int()
//	…
//	_, err = mark.Do(ctx, lease.Token(), "SET", "{invoice:42}", total)
//
// A mark is a key beside the data. It never expires, and is lost with the data only if both are: don't evict it (use the
// policy noeviction, or a volatile one), and don't flush one without the other.
//
// The server must not forget a mark that it has acknowledged, or a stale token passes. Over a crash that needs a log which is
// on the disk before the answer: appendonly yes and appendfsync always. What a failover to a replica loses of the latest
// writes, it loses of the marks as well, and no setting mends that.
package fenceredis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// Mark is the highest token that one resource has seen. Its methods are safe for concurrent use.
type Mark struct {
	Client redis.Scripter // of the server that has the data
	Key    string         // of the mark; in a Cluster with the hash tag of the data
}

// ErrInexact says that Do has carried the command out, and can't return the integer that came of it: a script rounds those from
// 2^53 on, and likewise below zero. Read it with GET or HGET, which reply text.
var ErrInexact = errors.New("the command was carried out, but its result is too large an integer for a script to return")

// Claim raises the mark to token, or fails with an error that matches [fence.ErrStale]; see [fence.Guard].
func (m Mark) Claim(ctx context.Context, token locker.Token) error {
	_, err := m.run(ctx, claimOnly, token, nil, nil)
	return err
}

// Do claims, and sends one command whose first argument is its key, in one step: SET, HSET, DEL, INCRBY and most others.
// When the token is stale, the command is not carried out. The result is the command's; a reply of nil is [redis.Nil].
// When the command fails, the claim stands all the same. A command whose reply was lost may have been carried out, and by
// a client that retries, twice. After an error that matches [ErrInexact] it has been carried out.
func (m Mark) Do(ctx context.Context, token locker.Token, command, key string, args ...any) (any, error) {
	result, err := m.run(ctx, oneCommand, token, []string{key}, append([]any{command}, args...))
	if redis.HasErrorPrefix(err, "INEXACT") {
		return nil, fmt.Errorf("fence: %q: %w", m.Key, ErrInexact)
	}
	return result, err
}

// Run claims, and runs a script of the caller's, in one step. In the script KEYS and ARGV are keys and args, as if it
// were run by itself. When the token is stale, it is not run. The result is the script's, whose numbers are those of Lua:
// it gets integers from 2^53 on rounded, and returns no fractions. Text stays as it is.
func (m Mark) Run(ctx context.Context, token locker.Token, s *Script, keys []string, args ...any) (any, error) {
	return m.run(ctx, s.script, token, keys, args)
}

// Script is a text in Lua that [Mark.Run] runs behind a claim. It is safe for concurrent use.
type Script struct{ script *redis.Script }

// NewScript makes a Script of a text that would run by itself. It has no shebang line (#!lua).
func NewScript(text string) *Script { return &Script{redis.NewScript(claimText + rest + text)} }

var (
	//go:embed claim.lua
	claimText string
	//go:embed command.lua
	commandText string
)

// rest makes the claim's own key and argument disappear for what follows.
const rest = `
local KEYS, ARGV = {select(2, unpack(KEYS))}, {select(2, unpack(ARGV))}
`

var (
	claimOnly  = redis.NewScript(claimText + "return 1")
	oneCommand = redis.NewScript(claimText + commandText)
)

func (m Mark) run(ctx context.Context, s *redis.Script, token locker.Token, keys []string, args []any) (any, error) {
	if m.Key == "" {
		return nil, errors.New("fence: the mark has no key")
	}
	if err := fence.CheckToken(token); err != nil {
		return nil, err
	}
	result, err := s.Run(ctx, m.Client, append([]string{m.Key}, keys...), append([]any{int64(token)}, args...)...).Result()
	if highest, stale := higher(err); stale {
		return nil, &fence.StaleError{Resource: m.Key, Token: token, Highest: highest}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		err = fmt.Errorf("fence: %q: %w", m.Key, err)
	}
	return result, err
}

// higher reads the refusal of a claim.
func higher(err error) (locker.Token, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return 0, false
	}
	text, stale := strings.CutPrefix(reply.Error(), "STALE ")
	if !stale {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return locker.Token(n), err == nil
}
