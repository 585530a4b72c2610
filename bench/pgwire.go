package main

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// pgRequests counts the requests on connections to Postgres, in the messages on the wire: the
// server's own counters miss function calls (pg_stat_statements) or come a second late
// (pg_stat_database).
type pgRequests struct{ requests, messages atomic.Int64 }

// dial makes connections that count. It expects that they are not encrypted.
func (p *pgRequests) dial(next pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		tcp, ok := conn.(*net.TCPConn)
		if err != nil || !ok {
			return conn, err
		}
		return &pgWire{TCPConn: tcp, count: p}, nil
	}
}

// pgWire is a connection that counts. It is a *net.TCPConn for its users, who set options of the
// socket.
type pgWire struct {
	*net.TCPConn
	count *pgRequests
	parser
}

func (w *pgWire) Write(b []byte) (int, error) {
	w.count.messages.Add(1)
	w.count.requests.Add(w.parse(b))
	return w.TCPConn.Write(b)
}

// parser divides a stream into the protocol's messages.
type parser struct {
	started bool   // the first message has no type
	header  []byte // what has come of the next message's type and length
	rest    int    // bytes of the present message that are still to come
}

// requestTypes are the types of messages that ask for work: Query, Execute and FunctionCall.
const requestTypes = "QEF"

// parse returns how many requests begin in b, which may end within a message.
func (p *parser) parse(b []byte) (requests int64) {
	for len(b) > 0 {
		if skip := min(p.rest, len(b)); skip > 0 {
			p.rest -= skip
			b = b[skip:]
			continue
		}
		p.header = append(p.header, b[0])
		b = b[1:]
		length := p.header
		if p.started {
			length = length[1:]
		}
		if len(length) < 4 {
			continue
		}
		if p.started && strings.IndexByte(requestTypes, p.header[0]) >= 0 {
			requests++
		}
		p.rest = int(binary.BigEndian.Uint32(length)) - 4 // the length counts itself
		p.started, p.header = true, p.header[:0]
	}
	return requests
}
