package pgsession

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

func TestExec(t *testing.T) {
	s, p := start(t, Settings{})
	r, err := s.Exec(t.Context(), "SELECT 1")
	if err != nil || r.Value(0, 0) != "SELECT 1" || r.Value(0, 1) != "" || r.Value(1, 0) != "" {
		t.Fatalf("Exec = %v, %v, want the peer's row", r, err)
	}
	if s.LastAnswered() != r.Sent || s.Silence() != 0 {
		t.Errorf("LastAnswered = %v, Silence = %v, want when the statement was sent, and none", s.LastAnswered(), s.Silence())
	}
	p.answers(func(string) []pgproto3.BackendMessage {
		return []pgproto3.BackendMessage{failure("ERROR", "42501"), failure("ERROR", "22023"), &pgproto3.ReadyForQuery{TxStatus: 'I'}}
	})
	if _, err := s.Exec(t.Context(), "SELECT 2"); !Refused(err) || Ended(err) || !Says(err, "1", "42501") || Says(err, "22023") {
		t.Errorf("Exec of a statement that fails = %v, want the server's first error", err)
	}
	p.answers(nil)
	if _, err := s.Exec(t.Context(), "SELECT 3"); err != nil {
		t.Errorf("Exec after a statement that failed = %v, want nil", err)
	}
}

// The end of a caller's context is not the end of the session, and the statement goes on.
func TestContextCoversTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, Settings{})
		p.answers(silence)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Exec(ctx, "SELECT 1"); !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, kit.ErrNotSent) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Exec without an answer = %v, want locker.ErrNoAnswer alone", err)
		}
		if _, err := s.Exec(ctx, "SELECT 2"); !errors.Is(err, locker.ErrNoAnswer) || !errors.Is(err, kit.ErrNotSent) {
			t.Errorf("Exec while another statement is under way = %v, want ErrNotSent", err)
		}
		if got := s.Silence(); got != time.Second {
			t.Errorf("Silence = %v, want 1s", got)
		}
		before := s.LastAnswered()
		go func() {
			time.Sleep(time.Second)
			p.answers(nil)
			p.send(row("late")...)
		}()
		r, err := s.Exec(t.Context(), "SELECT 3")
		if err != nil || r.Value(0, 0) != "SELECT 3" {
			t.Errorf("Exec after a late answer = %v, %v, want its own answer", r, err)
		}
		if s.LastAnswered() != r.Sent || r.Sent.Sub(before) != 2*time.Second {
			t.Errorf("LastAnswered has moved by %v, want it at the last statement", s.LastAnswered().Sub(before))
		}
		if got := p.statements(); got != "SELECT 1; SELECT 3" {
			t.Errorf("the peer has got %q", got)
		}
	})
}

// Urgent statements pass those that wait for their turn.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, Settings{})
		p.answers(silence)
		first, err := s.Begin(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = s.Exec(t.Context(), "ordinary") })
		}
		synctest.Wait()
		all.Go(func() { _, _ = s.ExecUrgent(t.Context(), "urgent") })
		synctest.Wait()
		p.answers(nil)
		p.send(row("1")...)
		all.Wait()
		<-first.Done()
		if got := p.statements(); !strings.HasPrefix(got, "first; ordinary; urgent; ordinary") {
			t.Errorf("the order was %q, want the urgent one after the first that waited", got)
		}
	})
}

// The end of a connection is known at once, with the server's word, also while nothing is under
// way.
func TestEnd(t *testing.T) {
	for name, last := range map[string]pgproto3.BackendMessage{
		"the server's word":  failure("FATAL", "57P01"),
		"an error unasked":   failure("ERROR", "57P01"),
		"a row unasked":      &pgproto3.DataRow{},
		"an answer unasked":  &pgproto3.ReadyForQuery{TxStatus: 'I'},
		"nothing but an end": nil,
	} {
		for _, underWay := range []bool{false, true} {
			if underWay && name != "the server's word" && name != "nothing but an end" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s, p := start(t, Settings{})
				p.answers(silence)
				var under *Call
				if underWay {
					under, _ = s.Begin(t.Context(), "SELECT 1")
				}
				if last == nil {
					_ = p.conn.Close()
				} else {
					p.send(last)
				}
				synctest.Wait()
				if err := s.Err(); !Ended(err) || err != p.cause() { //nolint:errorlint // the very same
					t.Errorf("%s: Err = %v, and %v was notified, want ErrEnded", name, err, p.cause())
				}
				if e, ok := last.(*pgproto3.ErrorResponse); ok && !Says(s.Err(), e.Code) {
					t.Errorf("%s: Err = %v, want the code %s", name, s.Err(), e.Code)
				}
				if under != nil && !Ended(s.Wait(t.Context(), under)) {
					t.Errorf("%s: the statement under way = %v, want ErrEnded", name, under.Err())
				}
				if _, err := s.Exec(t.Context(), "SELECT 2"); !Ended(err) || Refused(err) {
					t.Errorf("%s: Exec afterwards = %v, want ErrEnded", name, err)
				}
			})
		}
	}
}

// A client that closes waits until the server has ended the connection, and not for longer than its
// context.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, Settings{})
		s.Close(t.Context())
		if !errors.Is(p.cause(), ErrEnded) {
			t.Errorf("when Close has returned %v was notified, want ErrEnded", p.cause())
		}
		mine, _ := net.Pipe() // nobody reads at the other end
		s = New(&Conn{stream: mine}, Settings{})
		s.Start(func(error) {})
		began := time.Now()
		s.Close(t.Context())
		if took := time.Since(began); took != maxWrite {
			t.Errorf("Close on a connection that takes nothing has taken %v, want %v", took, maxWrite)
		}
	})
}

// What the deadline of a lease rests on is read back; a session on one machine needs no
// tcp_user_timeout.
func TestCheckSettings(t *testing.T) {
	s, p := start(t, Settings{IdleTimeout: 30 * time.Second})
	for _, c := range []struct {
		idle, tcp, near string
		want            error
	}{
		{"30000", "35000", "f", nil},
		{"30000", "0", "t", nil},
		{"0", "35000", "f", ErrPooler},
		{"30000", "0", "f", errors.ErrUnsupported},
	} {
		p.answers(func(string) []pgproto3.BackendMessage { return row("", c.idle, c.tcp, c.near) })
		if err := s.CheckSettings(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("CheckSettings of %+v = %v, want %v", c, err, c.want)
		}
	}
}

// A commit doesn't wait for the disk, except in a session that a pooler may give to somebody else.
func TestCommitsWaitThroughPooler(t *testing.T) {
	for pid, want := range map[int64]string{1: "'synchronous_commit', 'off'", 2: "'synchronous_commit', 'local'"} {
		s, p := start(t, Settings{IdleTimeout: 30 * time.Second})
		s.keyPID, s.PID = 1, pid
		p.answers(func(string) []pgproto3.BackendMessage { return row("", "30000", "35000", "f") })
		if err := s.CheckSettings(t.Context()); err != nil {
			t.Errorf("CheckSettings = %v, want nil", err)
		}
		if !strings.Contains(p.statements(), want) {
			t.Errorf("process %d, introduced as 1: %q, want %s", pid, p.statements(), want)
		}
	}
}

// A server that can't look after its clients is asked for less; a setting that a version doesn't
// have isn't set.
func TestPrepare(t *testing.T) {
	for _, version := range []int{160000, 170000} {
		s, p := start(t, Settings{IdleTimeout: 30 * time.Second, Blocks: true})
		s.version = version
		p.answers(func(sql string) []pgproto3.BackendMessage {
			if strings.Contains(sql, "client_connection_check_interval") {
				return []pgproto3.BackendMessage{failure("ERROR", codeUnsupported), &pgproto3.ReadyForQuery{TxStatus: 'I'}}
			}
			return row("")
		})
		if err := s.Prepare(t.Context()); err != nil {
			t.Errorf("Prepare = %v, want nil", err)
		}
		_, second, _ := strings.Cut(p.statements(), "; ")
		if !strings.Contains(second, "'idle_session_timeout', '30000'") || !strings.Contains(second, "'tcp_user_timeout', '35000'") ||
			strings.Contains(second, "'transaction_timeout'") != (version >= 170000) {
			t.Errorf("Prepare on version %d has set %q", version, second)
		}
	}
}

func TestQuoting(t *testing.T) {
	if got := Quoted(`a"b`); got != `"a""b"` {
		t.Errorf("Quoted = %s", got)
	}
	if got := Literal(`a'b\c`); got != ` E'a''b\\c'` {
		t.Errorf("Literal = %s", got)
	}
}
