package redisconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Probe sends a script that returns the commands which failed, each followed by its error. words
// makes the words of the call, by digest or with the whole text: both must be permitted.
//
// A command without a name is the database: the connection uses another one than the client's options
// say. A program that shares the client may have selected that database on it, so a new connection decides.
func (c *Conn) Probe(ctx context.Context, p Permissions, words func(whole bool) []any) error {
	err := c.probe(ctx, p, words)
	if !errors.As(err, new(otherDatabase)) {
		return err
	}
	fresh := c.fresh()
	if fresh == nil {
		return err
	}
	defer fresh.Client.Close()
	again := fresh.probe(ctx, p, words)
	if again == nil || errors.As(again, new(otherDatabase)) {
		return again
	}
	return fmt.Errorf("%w; on a new connection: %w", err, again)
}

func (c *Conn) probe(ctx context.Context, p Permissions, words func(whole bool) []any) error {
	for _, whole := range []bool{false, true} {
		cmd := c.NewCommand(ctx, words(whole))
		if err := c.Send(ctx, cmd); err != nil {
			return err
		}
		val, err := cmd.Result()
		if err != nil && (whole || !Says(err, "NOSCRIPT")) {
			return p.Explain(err)
		}
		failed, _ := val.([]any)
		if err := p.ErrorOf(failed); err != nil {
			return err
		}
	}
	return nil
}

// otherDatabase is the error of a connection that uses another database than the client's options say.
type otherDatabase struct{ replyError }

// fresh returns a Conn whose connections are new, with the settings of the client; nil: the client
// isn't one for a single server. Hooks of the client aren't among the settings. The caller closes the new client.
func (c *Conn) fresh() *Conn {
	client, ok := c.Client.(*redis.Client)
	if !ok {
		return nil
	}
	o := *client.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 2, 0, 0, 0 // see NewPool
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.PushNotificationProcessor, o.ClientSideCache, o.ClientSideCacheConfig = nil, nil, nil // each client has its own
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Conn{Client: redis.NewClient(&o), bounded: true, closing: c.closing}
}
