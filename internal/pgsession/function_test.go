package pgsession

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker/driver/kit"
)

// The messages are the protocol's, and both functions of a call have their own results.
func TestFunctions(t *testing.T) {
	s, v := serving(t)
	c, err := s.CallFunctions(t.Context(), time.Minute, TryAdvisoryLock(-1<<63+5), NextValue(900))
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, "two functions", c, 0, 5)
	wantResult(t, "two functions", c, 1, 900&0x7f)
	if v.times("2882(8000000000000005)") != 1 || v.times("1574(00000384)") != 1 {
		t.Errorf("the server has executed %v", v.executed)
	}
	if c, err = s.CallFunctions(t.Context(), time.Minute, BackendPID()); err != nil || v.times("2026") != 1 {
		t.Errorf("pg_backend_pid = %v, want its result; the server has executed %v", err, v.executed)
	}
	wantResult(t, "no argument", c, 0, 0)
	b := TryAdvisoryLock(7)
	var m pgproto3.FunctionCall
	if message := b.appendTo(nil); message[0] != 'F' || int(binary.BigEndian.Uint32(message[1:])) != len(message)-1 || m.Decode(message[5:]) != nil {
		t.Errorf("the message is %x", message)
	}
}

// An error in the middle belongs to one function alone.
func TestErrorInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := serving(t)
		v.hold(true)
		v.fails[text(TryAdvisoryLock(2))] = "53200"
		var calls [3]*Call
		for i := range calls {
			var err error
			if calls[i], err = s.BeginFunctions(t.Context(), TryAdvisoryLock(int64(i+1)), NextValue(uint32(i+11))); err != nil { //nolint:gosec // small
				t.Fatal(err)
			}
		}
		synctest.Wait()
		v.next(6)
		for i, c := range calls {
			if err := s.WaitFunctions(t.Context(), time.Minute, c); err != nil {
				t.Fatalf("call %d = %v", i, err)
			}
			wantResult(t, fmt.Sprint("call ", i), c, 1, int64(i+11))
			if i != 1 {
				wantResult(t, fmt.Sprint("call ", i), c, 0, int64(i+1))
			} else if _, err := c.Result(0); !Says(err, "53200") {
				t.Errorf("the function that has failed: %v, want the server's error", err)
			}
		}
	})
}

// A server that answers in another order, or not at all, is not believed.
func TestAnswerThatBelongsElsewhere(t *testing.T) {
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	for name, answer := range map[string][]pgproto3.BackendMessage{
		"the next one's":  returned(1574, 1),
		"nothing":         {ready},
		"two results":     {&pgproto3.FunctionCallResponse{Result: []byte{1}}, &pgproto3.FunctionCallResponse{Result: []byte{1}}, ready},
		"NULL":            {&pgproto3.FunctionCallResponse{}, ready},
		"a statement's":   {&pgproto3.DataRow{Values: [][]byte{{'1'}}}, ready},
		"a broken length": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, v := serving(t)
			v.hold(true)
			c, err := s.BeginFunctions(t.Context(), TryAdvisoryLock(1), NextValue(2))
			if err != nil {
				t.Fatal(err)
			}
			b := []byte{'V', 0, 0, 0, 3}
			if answer != nil {
				b = nil
			}
			for _, m := range answer {
				b, _ = m.Encode(b)
			}
			go func() { _, _ = v.conn.Write(b) }()
			if err := s.WaitFunctions(t.Context(), time.Minute, c); !Ended(err) || errors.Is(err, kit.ErrNotSent) {
				t.Errorf("%s as the answer: %v, want the end of the connection", name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // and a result is no statement's answer
		s, p := start(t, Settings{})
		p.answers(func(string) []pgproto3.BackendMessage { return returned(2882, 1) })
		if _, err := s.Exec(t.Context(), "SELECT 1"); !Ended(err) {
			t.Errorf("a function's result as the answer to a statement: %v, want the end of the connection", err)
		}
	})
}

// Notices and the like may come at any time, and an answer may come in pieces.
func TestAnswersInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := serving(t)
		v.hold(true)
		one, two := call(t.Context(), s, 1), call(t.Context(), s, 2)
		var b []byte
		for _, m := range []pgproto3.BackendMessage{
			&pgproto3.NoticeResponse{Severity: "WARNING", Message: "you don't own a lock"},
			&pgproto3.ParameterStatus{Name: "TimeZone", Value: "UTC"},
			&pgproto3.NotificationResponse{Channel: "a", Payload: string(make([]byte, 3*readSize))},
		} {
			b, _ = m.Encode(b)
		}
		b = append(append(b, v.answer(text(AdvisoryUnlock(1)))...), v.answer(text(AdvisoryUnlock(2)))...)
		go func() {
			for i := 0; i < len(b); i += 7 {
				time.Sleep(time.Millisecond) // so that readers' deadlines pass in between
				_, _ = v.conn.Write(b[i:min(i+7, len(b))])
			}
		}()
		if err := errors.Join(<-one, <-two); err != nil {
			t.Error(err)
		}
	})
}
