package pgsession

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// A function call message ('F' in the protocol) names a function by its OID and has its arguments
// in binary form. So the server has nothing to parse and to plan: that is most of the work that a
// short statement makes. It is one whole message, as a statement of the simple protocol is: half of
// it doesn't make the session busy. Each function call is a transaction of its own, and has an
// answer of its own. If one of them fails, the others that were sent with it don't.
//
// The OIDs of these functions are fixed in the server's catalog (pg_proc.dat), since before 14. A
// function is found by its OID whatever the search_path is.

// Function is one function call. Only functions that can't block, or that block for a bounded time,
// are called this way: all later calls on the connection wait for their answers.
type Function struct {
	oid      uint32
	argument [8]byte
	size     int // of the argument; 0: there is none
	returns  int // size of the result
}

// maxFunctions is how many functions one Call may have.
const maxFunctions = 2

// Sizes of values in binary form.
const (
	sizeOfBool = 1
	sizeOfInt4 = 4
	sizeOfInt8 = 8
)

// TryAdvisoryLock is pg_try_advisory_lock(bigint): 1 if the session has taken the lock, else 0.
func TryAdvisoryLock(key int64) Function { return ofKey(2882, key) }

// AdvisoryUnlock is pg_advisory_unlock(bigint): 1 if the session had the lock, else 0.
func AdvisoryUnlock(key int64) Function { return ofKey(2884, key) }

// AdvisoryUnlockShared is pg_advisory_unlock_shared(bigint).
func AdvisoryUnlockShared(key int64) Function { return ofKey(2885, key) }

// NextValue is nextval(regclass) of the sequence with this OID. It waits for a client that alters
// the sequence, for up to lock_timeout.
func NextValue(sequence uint32) Function {
	f := Function{oid: 1574, size: sizeOfInt4, returns: sizeOfInt8}
	binary.BigEndian.PutUint32(f.argument[:], sequence)
	return f
}

// BackendPID is pg_backend_pid().
func BackendPID() Function { return Function{oid: 2026, returns: sizeOfInt4} }

func ofKey(oid uint32, key int64) Function {
	f := Function{oid: oid, size: sizeOfInt8, returns: sizeOfBool}
	binary.BigEndian.PutUint64(f.argument[:], uint64(key)) //nolint:gosec // all 64 bits, whatever their sign
	return f
}

// appendTo appends the message to b.
func (f *Function) appendTo(b []byte) []byte {
	const binaryFormat = 1
	arguments, length := 0, 4+4+2+2+2+2 // length itself, OID, one format code, number of arguments, format of the result
	if f.size > 0 {
		arguments, length = 1, length+4+f.size
	}
	b = append(b, 'F')
	b = binary.BigEndian.AppendUint32(b, uint32(length)) //nolint:gosec // small
	b = binary.BigEndian.AppendUint32(b, f.oid)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint16(b, binaryFormat)
	b = binary.BigEndian.AppendUint16(b, uint16(arguments)) //nolint:gosec // 0 or 1
	if f.size > 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(f.size)) //nolint:gosec // small
		b = append(b, f.argument[:f.size]...)
	}
	return binary.BigEndian.AppendUint16(b, binaryFormat)
}

// result is the answer to one function call.
type result struct {
	value int64
	came  bool
	err   error
}

// take takes in the body of a FunctionCallResponse. A result of another size is the answer to
// another call: an answer was lost on the way, and no later one can be trusted.
func (r *result) take(body []byte, f *Function) error {
	if r.came || len(body) != 4+f.returns || binary.BigEndian.Uint32(body) != uint32(f.returns) { //nolint:gosec // small
		return fmt.Errorf("the server's answer doesn't belong to the call of function %d", f.oid)
	}
	r.came = true
	switch value := body[4:]; f.returns {
	case sizeOfBool:
		r.value = int64(value[0])
	case sizeOfInt4:
		r.value = int64(int32(binary.BigEndian.Uint32(value))) //nolint:gosec // a signed number
	default:
		r.value = int64(binary.BigEndian.Uint64(value)) //nolint:gosec // a signed number
	}
	return nil
}

// Result is what a function has returned, or the server's error. It may be called after
// CallFunctions or WaitFunctions has returned nil.
func (c *Call) Result(i int) (int64, error) { return c.results[i].value, c.results[i].err }

// CallFunctions calls one or two functions, in this order, and returns when both have their
// answers. What the server says of each is in Result. An error is the connection's, as
// Exec's, and ctx covers the waiting as it does there; limit does as well.
func (s *Session) CallFunctions(ctx context.Context, limit time.Duration, functions ...Function) (*Call, error) {
	if err := s.AwaitSlot(ctx); err != nil {
		return nil, err
	}
	c, err := s.BeginFunctions(ctx, functions...)
	if err != nil {
		return nil, err
	}
	return c, s.WaitFunctions(ctx, limit, c)
}

// mostFunctionCalls is how many Calls of functions may be under way. A caller that leaves doesn't
// take its Call back. So without a bound, Calls to a server that says nothing would fill the
// buffers of the connection until a write blocks; and a server that comes back would execute all of
// them before what is sent then.
const mostFunctionCalls = 80

// AwaitSlot waits until another Call of functions may be under way. Then the caller begins it, or
// gives the slot back with ReturnSlot. The error matches kit.ErrNotSent.
func (s *Session) AwaitSlot(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-s.down:
		return notSent(s.Err())
	case <-ctx.Done():
		return notSent(locker.ErrNoAnswer)
	}
}

// ReturnSlot gives back the slot of AwaitSlot.
func (s *Session) ReturnSlot() { <-s.slots }

// BeginFunctions calls functions, after AwaitSlot, and doesn't wait for their answers.
func (s *Session) BeginFunctions(ctx context.Context, functions ...Function) (*Call, error) {
	c := new(Call)
	c.count = copy(c.functions[:], functions)
	if err := s.begin(ctx, c); err != nil {
		s.freeSlot(c)
		return nil, err
	}
	return c, nil
}

// WaitFunctions waits for the answers of functions that were called. After locker.ErrNoAnswer without
// kit.ErrNotSent it may be called again. Only one goroutine at a time waits for them.
func (s *Session) WaitFunctions(ctx context.Context, limit time.Duration, c *Call) error {
	return s.wait(ctx, c, time.Now().Add(limit))
}
