// Package conformance is the suite that every backend of this project passes, for authors of other
// backends and for operators who want to know what their servers do.
//
// It shows that what a backend promises in its [locker.Guarantees] is what it does: mutual
// exclusion, waiting, time to live and renewal, ownership, fencing tokens, loss, behaviour under
// load and faults, names and configuration. Each behaviour is a [Case] of an ordered table, with a
// sentence that says what goes wrong for users without it; a failing run prints it.
//
// # Running it
//
// A test of ten lines runs the suite on a backend:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Open: func(t conformance.T) locker.Locker {
//				l, err := mybackend.New("localhost:1234")
//				if err != nil {
//					t.Fatalf("%v", err)
//				}
//				return l
//			},
//			TTL: 500 * time.Millisecond,
//		})
//	}
//
// Open returns a new Locker with connections of its own at each call, as another process would
// have. Lock names are new in each run; nothing is flushed, so the suite can run on servers that
// others use. It takes a minute or two with a TTL of half a second, most of which is spent waiting
// for leases to expire.
//
// [Evaluate] does the same outside of a test.
//
// # What a skipped case means
//
// A case that needs a guarantee runs wherever the backend claims it, and there is no way to opt
// out. Where it isn't claimed the case is skipped with "not claimed" and what is missing: the
// backend doesn't promise this, and the matrix says so.
//
// Other cases need faults: a network that is cut, a service that stops or restarts, a process that
// is killed. They run when the harness has the [Hooks] for it, and are skipped with the name of the
// hook otherwise: this was not tested. The harnesses of this project have them all and set Strict,
// which makes a missing hook a failure.
//
// A case may also be seen to pass without the guarantee being claimed. Then the backend claims too
// little, and the report says so; with Strict that is a failure, too.
//
// A backend's own cases run after the suite's as Harness.Pack.
package conformance
