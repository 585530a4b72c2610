package zkconn

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Do the addresses belong to one ensemble?
//
// An ensemble has no id that a client could read. But the servers of one ensemble agree on the
// transaction that has created a node, and on its time. Another ensemble doesn't have that node, or has
// created it in another transaction.
//
// A server may not know the node yet. So it is asked for a write that changes nothing before the node
// is read: without a quorum that isn't answered, and with one the server has applied all that came
// before. A sync proves less: a leader that the quorum has left answers it for some seconds, also on a
// local session, which it confirms alone.

// Origin is the creation of a node: the transaction, and its time by the leader's clock. The zero Origin
// is no node's: only the root has no transaction, and it isn't asked for.
type Origin struct{ Czxid, Ctime int64 }

// OriginOf is the creation of the node that a server has described.
func OriginOf(stat *zk.Stat) Origin { return Origin{stat.Czxid, stat.Ctime} }

// Foreign asks all addresses at the same time for a node whose creation the session knows, but for the
// address of its own server, which is at. foreign is an address whose server has no such node, or
// another one; it is empty if there is none. An address that doesn't answer within limit says nothing,
// nor does a server that refuses the credentials, or a permission.
func (s *Session) Foreign(ctx context.Context, limit time.Duration, path string, own Origin) (at, foreign string) {
	at = s.confirmedAt()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	addrs := slices.Clone(s.ensemble.Servers)
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(addr string) bool { return addr == at })
	others := make([]bool, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			a, _ := s.ensemble.openAndEnd(ctx, addr, connect{timeout: time.Millisecond, look: path})
			others[i] = a.looked && a.origin != own
		})
	}
	all.Wait()
	if i := slices.Index(others, true); i >= 0 {
		foreign = addrs[i]
	}
	return at, foreign
}

const (
	agreeXid  = closeXid + 1
	existsXid = closeXid + 2
)

// lookRequests are a write that changes nothing, a check of a node, and a read of that node.
func lookRequests(path string) []byte {
	const exists, check, multi, anyVersion, none = 3, 13, 14, -1, -1
	var b []byte
	number := func(n int32) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	length := int32(len(path))

	number(4 + 4 + 9 + 4 + length + 4 + 9)
	number(agreeXid)
	number(multi)
	number(check) // a header: operation, is it the end, error
	b = append(b, 0)
	number(none)
	number(length)
	b = append(b, path...)
	number(anyVersion)
	number(none)
	b = append(b, 1)
	number(none)

	number(4 + 4 + 4 + length + 1)
	number(existsXid)
	number(exists)
	number(length)
	b = append(b, path...)
	return append(b, 0) // no watch
}

// look notes what a reply says of the node.
func (a *endAnswer) look(reply []byte) {
	const noNode = -101
	code := codeOf(reply)
	switch {
	case xidOf(reply) == agreeXid:
		a.agreed = code == 0 && !isOfNoSession(reply) || code == noNode
	case xidOf(reply) != existsXid || !a.agreed:
	case code == noNode:
		a.looked = true
	case code == 0 && len(reply) >= replyHeaderSize+24: // czxid, mzxid, ctime
		stat := reply[replyHeaderSize:]
		a.looked = true
		a.origin = Origin{int64(binary.BigEndian.Uint64(stat)), int64(binary.BigEndian.Uint64(stat[16:]))}
	}
}
