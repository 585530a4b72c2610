// Package zkconn is go-zookeeper as a lock needs it: sessions whose end is certain, and answers
// that prove something. It knows nothing of locks.
//
// A [Session] has a zk.Conn of its own, a wire beneath it that bounds what go-zookeeper doesn't
// bound, and a rule for when the session is over (silence.go). [Ensemble] also talks to servers
// without go-zookeeper: it asks for the limits of sessions, and ends a session that is silent, or
// whose late requests must be stopped (gone.go). And a session can ask whether all addresses are of
// its own ensemble (origin.go).
//
// # What go-zookeeper v1.0.4 does, and what this package does about it
//
// The numbers are lines of its conn.go, unless another file is named.
//
//   - sendChan outlives sessions (queueRequest, 893; loop, 426): a request that waits to be sent is
//     sent under the next session, where the node that it creates belongs to nobody. So a zk.Conn
//     gets one session: after its end, Session.dial refuses to connect.
//   - A new session is reported, and the old one's end with it, only after a connect (authenticate,
//     705). So a session is also over when nothing is answered for its timeout.
//   - It shows each server the newest zxid that it has seen (664, 849), and servers that know less
//     (because their data was lost or restored) hang up without an answer. See silence.go.
//   - It never says how long a timeout the session was granted (setTimeouts, 342). The wire reads
//     it.
//   - It waits two thirds of the session's timeout for an answer (recvLoop, 801), ten times as long
//     for the answer to a request to connect, and without a limit for the rest of that answer
//     (authenticate, 683-697). The wire sets shorter limits.
//   - It allocates what the first four bytes announce (692, 814): a gigabyte for "HTTP". The wire
//     hides an answer that isn't one of ZooKeeper.
//   - A failed write is reported to its request, and a second time with all pending requests
//     (sendData, 754; flushRequests, 524). Credentials that are sent again after a connect have a
//     channel with room for one (sendRequest, 415; resendZkAuth, 1358): the second report blocks
//     forever. So Write of the wire never fails.
//   - It stays on a connection on which the server says that the session has expired or moved
//     (recvLoop, 862). The wire closes such a connection.
//   - It doesn't say why a server hung up on credentials (loop, 455). The wire remembers it.
//   - It leaves the connection open on which it heard that the session has expired (loop, 435), and
//     Close waits for no goroutine (315). Session.closeAll closes connections, and waits.
//   - Watches of its own are kept though nobody waits for them any more (addWatcher, 883), set
//     again after a connect by a request whose failure is only logged, and in a data race
//     (sendSetWatches, 578: lastZxid is read while recvLoop writes it). So GetW and ExistsW are not
//     used: see [Session.GetAndWatch].
//   - Events beyond six are dropped (sendEvent, 354). Events are taken from the callback.
//   - dnshostprovider.go looks names up once (Init, 60), and fails if one of them is unknown. After
//     each round of servers connect (376) fails what waits to be sent, and pauses for a second. See
//     hosts.
//   - It can't decode the answer to a container's creation within a Multi (structs.go, 373).
//   - CreateContainer (1099) returns the path in the answer also when the connection has ended, while
//     recvLoop may decode the answer: a data race. The path is not used here.
//   - It logs to the standard logger (35), and knows no contexts.
//
// We considered a connection of our own beneath the protocol types. But encodePacket, decodePacket
// and the request types are unexported, so it would be a client of its own, with its own encoding.
// The one thing that is patched, a byte of one kind of request, isn't worth that.
package zkconn

import (
	"context"
	"net"
)

// Ensemble says how to reach the servers.
type Ensemble struct {
	Servers []string // HOST:PORT: see WithPorts
	Dial    Dialer
	Auth    []Credentials // given on each connection once a session is confirmed there: see ending.go
}

// Dialer connects with a server. ctx covers the dialling alone.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Credentials is one way in which a session authenticates itself.
type Credentials struct{ Scheme, Secret string }
