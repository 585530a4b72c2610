package redisconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

var _ redis.Error = serverError("")

// What a connection says when its time limit is over is no answer in time, and keeps its text. So
// does a dial, before which nothing was sent.
func TestOverdue(t *testing.T) {
	for _, op := range []string{"read", "write", "dial"} {
		err := &net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded}
		got := redisconn.Overdue(err)
		if !errors.Is(got, locker.ErrNoAnswer) || !errors.Is(got, err) || redisconn.Unsent(got) != (op == "dial") {
			t.Errorf("Overdue(%v) = %v", err, got)
		}
		if again := redisconn.Overdue(got); again.Error() != got.Error() {
			t.Errorf("Overdue(%v) = %v", got, again)
		}
	}
	for _, err := range []error{nil, io.EOF, kit.ErrClosing, kit.ErrNotSent, serverError("LOADING"), &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ETIMEDOUT}} {
		if got := redisconn.Overdue(err); got != err { //nolint:errorlint // the very same
			t.Errorf("Overdue(%v) = %v, want it as it is", err, got)
		}
	}
	if err := redisconn.Overdue(context.DeadlineExceeded); err != locker.ErrNoAnswer { //nolint:errorlint // the context's error must not match
		t.Errorf("Overdue of a context's error = %v", err)
	}
}

func TestErrors(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	timeout := os.ErrDeadlineExceeded
	for _, c := range []struct {
		err                 error
		notExecuted, broken bool
	}{
		{nil, false, false},

		// Refused, before anything was executed. The texts are the servers'.
		{serverError("NOSCRIPT No matching script. Please use EVAL."), true, false},
		{serverError("MOVED 3999 127.0.0.1:6381"), true, false},
		{serverError("ASK 3999 127.0.0.1:6381"), true, false},
		{serverError("TRYAGAIN Multiple keys request during rehashing of slot"), true, false},
		{serverError("CROSSSLOT Keys in request don't hash to the same slot"), true, false},
		{serverError("CLUSTERDOWN The cluster is down"), true, false},
		{serverError("LOADING Redis is loading the dataset in memory"), true, false},
		{serverError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true, false},
		{serverError("READONLY You can't write against a read only replica."), true, false},
		{serverError("READONLY You can't write against a read only replica. script: 3c2f, on @user_script:48."), true, false},
		{serverError("OOM command not allowed when used memory > 'maxmemory'."), true, false},
		{serverError("NOREPLICAS Not enough good replicas to write."), true, false},
		{serverError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), true, false},
		{serverError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), true, false},
		{serverError("NOAUTH Authentication required."), true, false},
		{serverError("NOPERM User joe has no permissions to run the 'evalsha' command"), true, false},
		{serverError("NOPERM this user has no permissions to access one of the keys used as arguments"), true, false},
		{serverError("ERR max number of clients reached"), true, false},
		// Redis 6.2 passes on the error of a command in a script like this.
		{serverError("ERR Error running script (call to f_3c2f): @user_script:48: @user_script: 48: -OOM command not allowed when used memory > 'maxmemory'. "), true, false},
		{serverError("ERR Error running script (call to f_3c2f): @user_script:48: @user_script: 48: -READONLY You can't write against a read only replica. "), true, false},
		{fmt.Errorf("hook: %w", serverError("READONLY You can't write against a read only replica.")), true, false},

		// Not sent.
		{kit.ErrNotSent, true, false},
		{op("dial", syscall.ECONNREFUSED), true, false},
		{redis.ErrPoolTimeout, true, false},
		{redis.ErrClosed, true, false},
		{&tls.CertificateVerificationError{Err: errors.New("x509: certificate signed by unknown authority")}, true, false},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", Conn: new(net.TCPConn)}, true, false},
		{op("dial", io.EOF), true, false},
		{op("dial", syscall.ECONNRESET), true, false},
		{op("dial", syscall.ETIMEDOUT), true, false},

		// A script may fail in the middle.
		{serverError("ERR value is not an integer or out of range script: 3c2f, on @user_script:48."), false, false},
		{serverError("WRONGTYPE Operation against a key holding the wrong kind of value script: 3c2f, on @user_script:48."), false, false},
		{serverError("ERR Error running script (call to f_3c2f): @user_script:48: user_script:48: attempt to compare number with nil"), false, false},
		{serverError("ERR ACL failure in script: User joe has no permissions to run the 'set' command script: 3c2f, on @user_script:48."), false, false},
		{serverError("NOPERM ACL failure in script: User joe has no permissions to run the 'set' command"), false, false},
		{serverError("NOPERM User joe has no permissions to run the 'set' command script: 3c2f, on @user_script:48."), false, false},
		{serverError("ERR Error running script (call to f_3c2f): @user_script:48: @user_script: 48: -NOPERM this user has no permissions to run the 'set' command"), false, false},
		{serverError("ERR The user executing the script can't run this command or subcommand script: 3c2f, on @user_script:48."), false, false},

		// The connection has ended, and the request may have been executed.
		{io.EOF, false, true},
		{io.ErrUnexpectedEOF, false, true},
		{op("read", syscall.ECONNRESET), false, true},
		{op("write", syscall.EPIPE), false, true},
		{op("read", syscall.ETIMEDOUT), false, true}, // keepalives were not answered
		{net.ErrClosed, false, true},
		{tls.RecordHeaderError{Msg: "received record with a wrong version"}, false, true}, // after the handshake

		// Nothing was heard.
		{op("read", timeout), false, false},
		{kit.Overdue(context.DeadlineExceeded), false, false},
		{kit.Overdue(fmt.Errorf("pool: %w", context.Canceled)), false, false},
	} {
		if got := redisconn.NotExecuted(c.err); got != c.notExecuted {
			t.Errorf("%v: NotExecuted = %v, want %v", c.err, got, c.notExecuted)
		}
		if got := redisconn.Broken(c.err); got != c.broken {
			t.Errorf("%v: Broken = %v, want %v", c.err, got, c.broken)
		}
	}
}

// A context's error would say that the caller gave up, but it was our own timeout.
func TestOwnTimeoutIsNoContextError(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, fmt.Errorf("get a connection: %w", context.DeadlineExceeded)} {
		got := kit.Overdue(errors.Join(kit.ErrNotSent, err))
		if errors.Is(got, context.DeadlineExceeded) || errors.Is(got, context.Canceled) {
			t.Errorf("%v became %v, which still matches the error of a context", err, got)
		}
		if !redisconn.NotExecuted(got) {
			t.Errorf("%v became %v, which hides that nothing was sent", err, got)
		}
		if redisconn.NotExecuted(kit.Overdue(err)) {
			t.Errorf("%v became a proof that nothing was executed", err)
		}
	}
	if got := kit.Overdue(io.EOF); !errors.Is(got, io.EOF) {
		t.Errorf("Overdue(EOF) = %v", got)
	}
	if got := kit.Overdue(nil); got != nil {
		t.Errorf("Overdue(nil) = %v", got)
	}
}

func TestMayBeTLS(t *testing.T) {
	for _, c := range []struct {
		what       string
		err        error
		plain, tls bool // on a client without TLS, and with
	}{
		{"ended", io.EOF, true, true},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true, true},
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false, false},
		{"no answer", locker.ErrNoAnswer, false, true},
		{"not sent", kit.Overdue(errors.Join(kit.ErrNotSent, context.DeadlineExceeded)), false, false},
		{"a record that isn't TLS", tls.RecordHeaderError{Msg: "x"}, false, true},
		{"ended in the handshake", &net.OpError{Op: "dial", Net: "tcp", Err: io.EOF}, true, true},
		{"a record that isn't TLS, in the handshake", &net.OpError{Op: "dial", Net: "tcp", Err: tls.RecordHeaderError{Msg: "x"}}, false, true},
		{"an error reply", serverError("NOAUTH Authentication required."), false, false},
	} {
		if got := redisconn.MayBeTLS(c.err, false); got != c.plain {
			t.Errorf("%s, without TLS: %v, want %v", c.what, got, c.plain)
		}
		if got := redisconn.MayBeTLS(c.err, true); got != c.tls {
			t.Errorf("%s, with TLS: %v, want %v", c.what, got, c.tls)
		}
	}
}
