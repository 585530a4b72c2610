package pgbackend_test

import (
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The fake server's side of a connection: messages in, and messages out.

func (f *fake) serve(conn net.Conn) {
	f.mu.Lock()
	f.pids++
	c := &fakeConn{Conn: conn, backend: pgproto3.NewBackend(conn, conn), pid: 1000 + f.pids, server: f.server}
	f.conns[c] = true
	f.mu.Unlock()
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, c)
		f.free(c)
	}()
	hello, err := c.backend.ReceiveStartupMessage()
	if _, wantsTLS := hello.(*pgproto3.SSLRequest); wantsTLS {
		if _, err = conn.Write([]byte{'N'}); err == nil {
			_, err = c.backend.ReceiveStartupMessage()
		}
	}
	if err != nil {
		return
	}
	f.mu.Lock()
	if f.greeting != nil {
		c.backend.Send(f.greeting)
		_ = c.backend.Flush()
		f.mu.Unlock()
		return
	}
	c.backend.Send(&pgproto3.AuthenticationOk{})
	c.backend.Send(&pgproto3.BackendKeyData{ProcessID: uint32(c.pid + f.keyPID), SecretKey: []byte{1, 2, 3, 4}}) //nolint:gosec // small
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	err = c.backend.Flush()
	f.mu.Unlock()
	if err != nil {
		return
	}
	requests, over := make(chan func() error, 100), make(chan struct{}) // as the buffer of a kernel
	defer close(over)
	go f.receive(c, requests, over)
	for execute := range requests {
		if execute() != nil {
			return
		}
	}
}

// receive takes in what a client sends, while the server is busy with what came before.
func (f *fake) receive(c *fakeConn, requests chan<- func() error, over <-chan struct{}) {
	defer close(requests)
	for {
		message, err := c.backend.Receive()
		if err != nil {
			return
		}
		var execute func() error
		switch m := message.(type) {
		case *pgproto3.Query:
			sql := m.String
			execute = func() error { return f.answer(c, sql) }
		case *pgproto3.FunctionCall:
			called := callOf(m)
			execute = func() error { return f.answerCall(c, called) }
		default:
			return
		}
		select {
		case requests <- execute:
		case <-over:
			return
		}
	}
}

// verdict is what to do with a message, and how long to wait before.
func (f *fake) verdict(sql string) (what string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, sql)
	if f.before != nil {
		what = f.before(sql)
	}
	if what == "late" {
		return "", f.late
	}
	return what, f.slow
}

// answer carries a message out.
func (f *fake) answer(c *fakeConn, sql string) error {
	what, wait := f.verdict(sql)
	time.Sleep(wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reply(c, what, &pgproto3.CommandComplete{CommandTag: []byte("SELECT")}, func() {
		rows := f.rows(c, sql)
		if len(rows) > 0 { // which pgx wants to know
			c.backend.Send(&pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(rows[0]))})
		}
		for _, row := range rows {
			values := make([][]byte, len(row))
			for i, v := range row {
				if v != "" {
					values[i] = []byte(v)
				}
			}
			c.backend.Send(&pgproto3.DataRow{Values: values})
		}
	}, func() {
		c.backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("f"), []byte("f")}})
	})
}

// reply does with a message what a test wants. execute executes it, and sends the result; no sends
// that nothing was done; end comes after either, unless it is nil.
func (f *fake) reply(c *fakeConn, what string, end pgproto3.BackendMessage, execute, no func()) error {
	if f.mute == c || c.stuck { // nothing is executed before what was sent earlier
		what = "silence"
	}
	after, executed := strings.CutPrefix(what, "executed, then ")
	if executed {
		what = ""
	}
	switch what {
	case "swallow": // as if it had never been sent
		return nil
	case "silence":
		c.stuck = true
		return nil
	case "hang up":
		return net.ErrClosed
	case "end":
		c.backend.Send(f.last)
		_ = c.backend.Flush()
		return net.ErrClosed
	case "no":
		no()
	case "":
		execute()
		if executed {
			return c.refuse(after)
		}
	default:
		return c.refuse(what)
	}
	if end != nil {
		c.backend.Send(end)
	}
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return c.backend.Flush()
}

// fakeHint comes with the error about a full lock table.
const fakeHint = "You might need to increase max_locks_per_transaction."

// refuse answers with an error: its code and its text.
func (c *fakeConn) refuse(what string) error {
	code, text, _ := strings.Cut(what, " ")
	hint := ""
	if text == "out of shared memory" {
		hint = fakeHint
	}
	c.backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: text, Hint: hint})
	c.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return c.backend.Flush()
}
