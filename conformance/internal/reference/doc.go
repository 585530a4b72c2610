// Package reference is a lock service with its driver, and a list of defects that it can be given.
// The suite's own tests use both: the suite must accept the service as it is, and refuse it with
// each defect. It shares no code with membackend, so that the suite isn't measured with the backend
// that it was written with.
//
// It also shows what a right backend does, and can be read in this order:
//
//   - protocol.go has the messages;
//   - service.go has the operations, expiry.go the end of what is silent, tombstones.go what stops
//     late requests, tokens.go the fencing tokens;
//   - client.go has connections, calls and notices, link.go the network with its faults, arrive.go
//     the service's end of it;
//   - driver.go and lock.go implement package driver;
//   - faults.go has what happens to a service: pause, restart, loss of data, an operator;
//   - dialect.go has what a service may leave out, and its guarantees then;
//   - harness.go is the harness for the suite;
//   - steps.go has the steps that a mutation may replace, and the files mutations_*.go replace them.
//
// Everything is in memory and needs only timers, so it lives in a bubble of testing/synctest, where
// it executes tens of thousands of operations in a second.
//
// # The protocol
//
// Each acquisition has an owner, a random id that is never used for another one. All that the
// service does for an acquisition, it does by comparing the owner.
//
// A lock is attached to a key of its own, which expires when no renewal has come for a TTL. A
// waiter has a place in the queue of the name. The place expires in the same way. A release hands
// the lock to the first waiter whose place has not expired, and so does an expiry. The waiter
// learns of it by a notice, and so does a holder whose lock was taken away. Notices go to the
// connection on which the client's last request came. They may be lost. Then the next renewal says
// the same.
//
// A lease that was waited for rests on the last refresh of the place, because nothing proves that
// the waiter has been alive since. The notice names that refresh, and the client counts from the
// moment at which it sent it.
//
// An acquisition that has ended never comes back: the service keeps a tombstone of its owner for
// longer than any message is on its way. So every request may be lost, repeated, or late, and a
// client whose connection broke sends its requests again.
package reference
