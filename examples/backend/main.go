// Backend shows what a small backend takes. driver.go is the whole of it: a driver that polls a
// store over HTTP. store.go is that store, and backend_test.go runs the conformance suite on both.
//
// A driver like this is right for a store with keys, owners and a time to live. Owner ids, the
// moment from which a lease counts (Base), tokens, renewal, an answer that is lost, and a release
// that overtakes its acquisition are all in it. Waiting, deadlines, retries, cancellation and Close
// are the engine's. What a client must do that has one connection for all callers isn't in it:
// package http does that here. See examples/tcpbackend.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/fencedlock/locker"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: newStore(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()

	l := New("http://"+listener.Addr().String(), &http.Client{Transport: new(http.Transport)})
	defer l.Close()
	err = locker.Do(context.Background(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		_, err := locker.TryAcquire(context.WithoutCancel(ctx), l, "invoices/42")
		fmt.Println("a second holder is kept out:", errors.Is(err, locker.ErrHeld))
		return lease.Renew(ctx)
	})
	fmt.Println(err)
}
