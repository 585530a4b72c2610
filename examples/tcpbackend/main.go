// Tcpbackend shows a backend whose service is reached by one TCP connection that all callers share.
// What to copy is conn.go and client.go, the connection; driver.go, the lock protocol; open.go, the
// URL; and harness_test.go, which runs the conformance suite with all faults. server.go and
// store.go are the service, in place of a real one.
//
// Without arguments it shows a lock. With "serve ADDR" it is the server, and with "hold ADDR" it is
// a holder for the suite; both end with their standard input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		listener, err := listen(args[1])
		if err != nil {
			return err
		}
		fmt.Println(listener.Addr()) // the process that has started this one may connect now
		_, err = io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, listener.Close())
	case len(args) == 2 && args[0] == "hold":
		l := New(args[1], new(net.Dialer).DialContext, 30*time.Second)
		return errors.Join(process.Serve(l, os.Stdin, os.Stdout), l.Close())
	case len(args) == 0:
		return show()
	}
	return errors.New("usage: tcpbackend [serve ADDR | hold ADDR]")
}

// listen starts a server, which ends with its listener.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &server{store: newStore()}
	go func() { _ = s.serve(listener) }() // its error says that the listener was closed
	return listener, nil
}

func show() error {
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	l := New(listener.Addr().String(), new(net.Dialer).DialContext, 30*time.Second)
	defer l.Close()
	return locker.Do(context.Background(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		_, err := locker.TryAcquire(context.WithoutCancel(ctx), l, "invoices/42")
		fmt.Println("a second holder is kept out:", errors.Is(err, locker.ErrHeld))
		return lease.Renew(ctx)
	})
}
