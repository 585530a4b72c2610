package pgsession

import (
	"net"
	"syscall"
	"time"
)

// outlast keeps this machine's kernel from giving a connection up before the server has been silent
// for d. When the kernel gives up, it may send a reset. If the server gets that, it ends the
// session at the moment at which the client is notified: another client may make use of that faster
// than a client that is paused or busy. A stream that isn't a socket stays as it is.
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
