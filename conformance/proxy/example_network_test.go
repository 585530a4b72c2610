package proxy_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
)

// A client that takes only an address gets the address that Forward returns. While the network is
// cut, neither end notices anything.
func ExampleNetwork_Forward() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.Copy(conn, conn) // an echo
		}
	}()
	network, err := proxy.New()
	if err != nil {
		log.Fatal(err)
	}
	defer network.Close()
	addr, err := network.Forward(server.Addr().String())
	if err != nil {
		log.Fatal(err)
	}

	client, err := net.Dial("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ask := func(text string, limit time.Duration) string {
		if err := client.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return err.Error()
		}
		if _, err := io.WriteString(client, text); err != nil {
			return err.Error()
		}
		answer := make([]byte, len(text))
		if _, err := io.ReadFull(client, answer); err != nil {
			return "no answer"
		}
		return string(answer)
	}
	fmt.Println(ask("hello", time.Minute))
	network.Cut()
	fmt.Println(ask("anybody?", 20*time.Millisecond))
	// Output:
	// hello
	// no answer
}
