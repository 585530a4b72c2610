//go:build !linux

package pgsession

import (
	"net"
	"time"
)

// outlast does nothing: there is no TCP_USER_TIMEOUT. The system's own limits count, and end a
// connection after minutes.
func outlast(net.Conn, time.Duration) {}
