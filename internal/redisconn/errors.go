package redisconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// refusals are the first words of errors by which a server says that it has executed nothing. The
// server refuses the command, or the command's first write, before which nothing was written. (A
// server executes a script as a whole, so what forbids the script's first write was true from its
// beginning. A missing permission forbids one command of a script and not another: see NotExecuted.)
var refusals = []string{
	"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "OOM",
	"NOREPLICAS", "MISCONF", "BUSY", "NOAUTH", "WRONGPASS", "max number of clients",
}

// Says reports whether err is an error reply that begins with one of words. Redis 6 puts the error
// of a command in a script at the end of an error of its own: "ERR Error running script (call to
// …): … -READONLY You can't write …".
func Says(err error, words ...string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	_, inner, inScript := strings.Cut(text, ": -")
	for _, word := range words {
		if strings.HasPrefix(text, word) || inScript && strings.HasPrefix(inner, word) {
			return true
		}
	}
	return false
}

// NotExecuted reports whether err proves that a request was not executed, and won't be: it was not
// sent, or the server has refused it. After any other error nobody knows. An error reply that is
// not one of the refusals is such an error, because a script that fails in the middle has done its
// first half.
func NotExecuted(err error) bool {
	return Unsent(err) || Says(err, refusals...) || Says(err, "NOPERM") && !fromScript(err)
}

// inScript is what errors of commands in scripts contain. Redis itself calls a missing permission
// there an "ERR ACL failure in script", but servers that are compatible may begin with NOPERM.
var inScript = []string{"running script", "ACL failure in script", " script: ", ", on @user_"}

// fromScript reports whether err is the error of a command in a script. What the script had done
// before stays.
func fromScript(err error) bool {
	return slices.ContainsFunc(inScript, func(words string) bool { return strings.Contains(err.Error(), words) })
}

// Unsent reports whether err happened before anything was sent. A handshake that fails is such an error
// if that can be seen: a server's alert may also come after it.
func Unsent(err error) bool {
	var op *net.OpError
	var record tls.RecordHeaderError // with a connection if it is of the first record
	return errors.Is(err, kit.ErrNotSent) || errors.As(err, &op) && op.Op == "dial" ||
		errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, &record) && record.Conn != nil ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// Broken reports whether err says that the connection has ended. Another connection may work, for
// example after a restart of the server during which this one was idle. A connection on which
// nothing is heard is not broken.
func Broken(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply) && !Unsent(err) && !Silent(err)
}

// Silent reports whether err says only that nothing was heard in time.
func Silent(err error) bool {
	return errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, kit.ErrClosing) || isOverdue(err)
}

// Overdue is [kit.Overdue] for errors of go-redis. It also adds [locker.ErrNoAnswer] to what a connection
// says when its time limit is over.
func Overdue(err error) error {
	err = kit.Overdue(err)
	if errors.Is(err, locker.ErrNoAnswer) || !isOverdue(err) {
		return err
	}
	return fmt.Errorf("%w: %w", locker.ErrNoAnswer, err)
}

// isOverdue reports whether err is of a time limit. ETIMEDOUT calls itself one. But a connection with
// that error has ended: the kernel has given it up.
func isOverdue(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() && (!errors.Is(err, syscall.ETIMEDOUT) || Unsent(err))
}

// MayBeTLS reports whether err may mean that only one side speaks TLS. A server with TLS ends a
// connection without TLS. A server without TLS waits for the rest of a command, or ends the
// connection as well.
func MayBeTLS(err error, usesTLS bool) bool {
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if !usesTLS {
		return ended
	}
	heardNothing := Silent(err) && !errors.Is(err, kit.ErrNotSent) // on a connection that may exist
	return ended || heardNothing || errors.As(err, new(tls.RecordHeaderError))
}
