package fenceredis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once is a command that go-redis sends once. By default go-redis sends a command again when its
// reply was lost. A claim that came in between could refuse the second copy: the caller would get
// an error that says that nothing was written, though the first copy has written. A redirection in
// a Cluster is followed all the same, because nothing was executed then.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// send executes a script by its digest, and by its text if the server doesn't know the digest. A
// claim alone may be repeated.
func (s *Script) send(ctx context.Context, client redis.Scripter, keys []string, args []any) *redis.Cmd {
	p, ok := client.(interface {
		Process(ctx context.Context, cmd redis.Cmder) error
	})
	if !ok || s == claimOnly {
		return s.script.Run(ctx, client, keys, args...)
	}
	try := func(name, script string) *redis.Cmd {
		words := make([]any, 0, 3+len(keys)+len(args))
		words = append(words, name, script, len(keys))
		for _, key := range keys {
			words = append(words, key)
		}
		cmd := redis.NewCmd(ctx, append(words, args...)...)
		if err := p.Process(ctx, once{cmd}); err != nil {
			cmd.SetErr(err) // clients of go-redis have done so
		}
		return cmd
	}
	cmd := try("evalsha", s.script.Hash())
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = try("eval", s.text)
	}
	return cmd
}
