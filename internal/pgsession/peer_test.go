package pgsession

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// peer is the other end of a session: it answers each statement as the test says.
type peer struct {
	backend *pgproto3.Backend
	conn    net.Conn

	mu     sync.Mutex
	seen   []string
	answer func(sql string) []pgproto3.BackendMessage // nil: the default
	ended  error                                      // the cause that the session has notified
}

// start makes a session with a peer that answers with one row, of the statement itself, unless
// answer says something else.
func start(t *testing.T, settings Settings) (*Session, *peer) {
	t.Helper()
	mine, theirs := net.Pipe()
	p := &peer{backend: pgproto3.NewBackend(theirs, theirs), conn: theirs}
	go func() {
		for {
			message, err := p.backend.Receive()
			if err != nil {
				_ = theirs.Close()
				return
			}
			switch m := message.(type) {
			case *pgproto3.Query:
				p.reply(m.String, row(m.String))
			case *pgproto3.FunctionCall:
				text := callText(m)
				p.reply(text, returned(m.Function, 1))
			default:
				_ = theirs.Close() // the client says goodbye
			}
		}
	}()
	s := New(&Conn{stream: socket(mine), keyPID: 1}, settings)
	s.Start(func(cause error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = cause
	})
	t.Cleanup(func() { s.End(ErrClosed) })
	return s, p
}

func (p *peer) reply(sql string, messages []pgproto3.BackendMessage) {
	p.mu.Lock()
	p.seen = append(p.seen, sql)
	if p.answer != nil {
		messages = p.answer(sql)
	}
	p.mu.Unlock()
	p.send(messages...)
}

func (p *peer) send(messages ...pgproto3.BackendMessage) {
	for _, m := range messages {
		if b, err := m.Encode(nil); err == nil {
			_, _ = p.conn.Write(b)
		}
	}
}

func (p *peer) answers(answer func(sql string) []pgproto3.BackendMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *peer) statements() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.seen, "; ")
}

func (p *peer) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func row(values ...string) []pgproto3.BackendMessage {
	fields := make([][]byte, len(values))
	for i, v := range values {
		fields[i] = []byte(v)
	}
	return []pgproto3.BackendMessage{&pgproto3.DataRow{Values: fields}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
}

// callText is a function call as a test sees it: its OID and its argument.
func callText(m *pgproto3.FunctionCall) string {
	text := fmt.Sprint(m.Function)
	for _, argument := range m.Arguments {
		text += fmt.Sprintf("(%x)", argument)
	}
	return text
}

// returned is the answer to a function call: a number of the size that the function returns.
func returned(function uint32, n uint64) []pgproto3.BackendMessage {
	size := map[uint32]int{1574: 8, 2026: 4}[function]
	value := binary.BigEndian.AppendUint64(nil, n)[8-max(size, 1):]
	return []pgproto3.BackendMessage{&pgproto3.FunctionCallResponse{Result: value}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
}

func silence(string) []pgproto3.BackendMessage { return nil }

func failure(severity, code string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "no"}
}
