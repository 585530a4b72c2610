package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// TLSDialer connects by TLS. The context bounds the handshake as well.
func TLSDialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &tls.Dialer{Config: config}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		var op *net.OpError
		switch {
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("%s hangs up on TLS; a port without TLS needs zk://", addr)
		case err != nil && (!errors.As(err, &op) || op.Addr == nil): // errors of TLS don't name the server
			err = fmt.Errorf("%s: %w", addr, err)
		}
		return conn, err
	}
}

// IsAlert reports whether the other side has refused a TLS connection: our certificate, for example, which it does after the handshake.
func IsAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
