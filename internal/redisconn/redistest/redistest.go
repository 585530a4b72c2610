// Package redistest is the server side of Redis' protocol, for tests: a server that answers what a
// test says, as far as a client of go-redis needs it to connect.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// What an answer may be besides a reply.
const (
	Silence = ""     // nothing is sent
	HangUp  = "\x00" // the connection is closed
)

// Listen returns the address of a server that calls serve with each connection, in a goroutine, and
// closes the connection when serve returns. At the end of the test it closes all connections, and
// waits for serve.
func Listen(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}

// Serve reads commands from a connection and sends what answer returns, until the connection ends.
func Serve(conn net.Conn, answer func(command []string) string) {
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := answer(command)
		if reply == HangUp {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// Handshake answers the commands of a client that connects, and those that a test doesn't care
// about.
func Handshake(command []string) string {
	switch strings.ToLower(command[0]) {
	case "hello":
		return "-ERR unknown command 'hello'\r\n" // as an old server, which go-redis accepts
	case "ping":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

// Bulk is a text as a reply.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// Confirm is the reply to SUBSCRIBE.
func Confirm(channel string) string {
	return "*3\r\n" + Bulk("subscribe") + Bulk(channel) + ":1\r\n"
}

// Message is what a subscriber gets.
func Message(channel, text string) string {
	return "*3\r\n" + Bulk("message") + Bulk(channel) + Bulk(text)
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != kind {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		command[i] = string(word[:size])
	}
	return command, nil
}
