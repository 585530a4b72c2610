package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// TLSDialer connects with TLS. The dialler's context covers the handshake, too.
func TLSDialer(config *tls.Config) Dialer {
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

// isAlert reports whether the other side has refused a TLS connection, for example our certificate,
// which it does after the handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
