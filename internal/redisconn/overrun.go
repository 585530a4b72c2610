package redisconn

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lateness       = time.Second      // of a busy machine, where a time limit bounds a call
	unknownOverrun = 13 * time.Second // of a client about whose timeouts nothing is known
)

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
	return write + read + write
}
