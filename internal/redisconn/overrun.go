package redisconn

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lateness       = time.Second // of a busy machine, where a time limit bounds a call
	unknownOverrun = time.Minute // of a client about whose timeouts nothing is known
)

// greetings is how many requests go-redis v9.22 makes at most on a new connection, one after the
// other: HELLO, AUTH if that is refused, the database with others, and two about the client. OnConnect
// of the client's options may make more, and a provider of credentials may take longer.
const greetings = 5

// Overrun is for how long after the end of its context a call may still write its commands. A call
// that nothing bounds but the client's timeouts goes on in a goroutine. At the end of its context it
// may be greeting a new connection, and writes the commands after that.
func (c *Conn) Overrun() time.Duration {
	if c.pool != nil || c.bounded {
		return lateness
	}
	var read, write time.Duration
	switch client := c.Client.(type) {
	case *redis.Client:
		read, write = client.Options().ReadTimeout, client.Options().WriteTimeout
	case *redis.ClusterClient:
		read, write = client.Options().ReadTimeout, client.Options().WriteTimeout
	}
	if read <= 0 || write <= 0 {
		return unknownOverrun
	}
	return greetings*(write+read) + write
}
