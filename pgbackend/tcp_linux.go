package pgbackend

import (
	"net"
	"syscall"
	"time"
)

// outlast keeps the kernel of this machine from ending a connection before it has had no answer for d. It ends the session by that: its
// reset may reach the server although nothing else of the server's arrives here. Then the lock is free at the moment at which the
// holder is notified, and a rival may be faster than a holder that is paused or busy. What isn't a socket stays as it is.
func outlast(stream net.Conn, d time.Duration) {
	if secured, ok := stream.(interface{ NetConn() net.Conn }); ok { // TLS
		stream = secured.NetConn()
	}
	socket, ok := stream.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	const tcpUserTimeoutOption = 18 // TCP_USER_TIMEOUT, which package syscall doesn't name on all architectures
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeoutOption, int(d.Milliseconds()))
	})
}
