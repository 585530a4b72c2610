package redisconn_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// A request whose TLS handshake fails was not sent. The error still says that perhaps only one side
// speaks TLS.
func TestPoolSendsNothingBeforeTheHandshake(t *testing.T) {
	for what, serve := range map[string]func(net.Conn){
		"a server that ends the connection": func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadByte()
		},
		"a server without TLS": func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadByte()
			_, _ = io.WriteString(c, "-ERR unknown command\r\n")
		},
		"an alert": func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{}).Handshake() // it has no certificate
		},
	} {
		t.Run(what, func(t *testing.T) {
			addr := redistest.Listen(t, func(c net.Conn) {
				serve(c)
				_ = c.Close()
			})
			c := pooledTo(t, &redis.Options{Addr: addr, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
			_, err := ask(t.Context(), c)
			if err == nil || !redisconn.NotExecuted(err) {
				t.Errorf("a call whose handshake fails = %v, want an error that says that nothing was sent", err)
			}
			if what != "an alert" && !redisconn.MayBeTLS(err, true) {
				t.Errorf("MayBeTLS(%v) = false, want true", err)
			}
		})
	}
}
