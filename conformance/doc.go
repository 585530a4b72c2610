// Package conformance is the suite of tests that every backend of this project passes. It is also
// for authors of other backends, and for operators who want to test their servers.
//
// The suite shows that a backend keeps what its [locker.Guarantees] promise: mutual exclusion,
// waiting, time to live and renewal, ownership, fencing tokens, loss, behaviour under load and
// faults, names, configuration, inspection and breaks. Each behaviour is a [Case] of an ordered
// table. A case has a sentence that says why the behaviour matters to users; a failing run prints it.
//
// # Running the suite
//
// A short test runs the suite on a backend:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Open: func(t conformance.T) locker.Locker {
//				l, err := mybackend.New(t.Context(), "localhost:1234")
//				if err != nil {
//					t.Fatalf("%v", err)
//				}
//				return l
//			},
//			TTL: 500 * time.Millisecond,
//		})
//	}
//
// The suite requires two modules (porcupine and rapid), so run `go mod tidy` after the first import.
//
// Open returns a new Locker with its own connections at each call, as another process would have.
// Lock names are new in each run and nothing is flushed, so the suite can run on servers that
// others use. With a TTL of 500 ms a run takes a minute or two, in which it mostly waits until
// leases expire.
//
// A complete harness, with a server in a process of its own, is in examples/tcpbackend:
// harness_test.go is for copying. It has all hooks but Failover and Narrow, which make no sense
// there, and Waiters. CONTRIBUTING.md says in which order cases become green, and which field of the
// harness to change when a machine is slow.
//
// [Evaluate] runs cases outside of a test.
//
// # Faults
//
// Many cases need a fault: a network that is cut, a service that stops or restarts, a process that
// is killed. The [Hooks] of the harness make these faults, and look at what is left. Write them in
// this order:
//
//   - Linked opens a Locker whose network can be disturbed. Package proxy has a network for every
//     service that is reached by TCP, and the example of Harness uses it. This hook has the most
//     cases, and without it the commonest mistake is not found: a deadline that is counted from
//     the reply.
//   - Forgetful is Linked with a network that can also forget connections, as firewalls do. Mostly
//     Linked is this hook as well.
//   - Pause, Down, Restart, Wipe, Remove and Failover do to the service what happens to it in
//     production.
//   - Process starts a holder in another process, which the suite kills and suspends. Package
//     process has both ends of it.
//   - Skewed starts a holder whose clock is wrong. All Lockers of one machine share a clock, so
//     without this hook nothing is known of machines whose clocks differ.
//   - Requests, Waiters and Residue look at the service. They make cases stricter, and so find
//     what a backend leaves on its service.
//   - URL, BadURLs, Prefixed and Narrow are other ways to open a Locker, right and wrong ones.
//
// # Exploring
//
// The cases are chosen by people. [Explore] looks for what nobody thought of: it executes random
// programs on the same harness, and judges each answer by a model of the contract. Call it next to
// Run:
//
//	conformance.Explore(t, harness, conformance.Budget{Time: time.Minute})
//
// In bubbles of testing/synctest, by Wrap, that is tens of thousands of operations or more. The
// hooks that matter most are Linked, Remove, and those that make the service fail. A link may also
// be a [OneWayLink], a [ForgetfulLink] or a [MessageLink]. A program that fails is shortened and
// printed as Go, with what happened in it. Keep it as a test that calls [Replay]. Each search begins
// with a new seed, and prints it.
//
// Explore never calls Inspect, List or Break, so for these there are the cases alone.
//
// # Skipped cases
//
// A case that needs a guarantee runs wherever the backend claims the guarantee; the harness can't
// switch it off. Where the guarantee isn't claimed, the case is skipped with "not claimed" and what
// is missing: the backend doesn't promise this behaviour.
//
// A case that needs a hook is skipped, with the name of the hook, where the harness doesn't have
// it: this behaviour was not tested. At its end a run has a line for each such hook, which names
// what is not proved. The harnesses of this project set Strict, which makes a missing hook a
// failure, unless Absent gives the reason why no case that needs it makes sense.
//
// Some cases also run where their guarantee is not claimed. If such a case passes, the backend
// claims too little, and the report says so. With Strict that is a failure, too.
//
// # What a pass means
//
// A pass means that on these servers, under the faults that the hooks make, each case saw what it
// is named for, and that the programs of Explore broke no invariant. It doesn't mean more:
//
//   - A guarantee whose hook is missing was not tested. The last lines of a run name it.
//   - A defect is found only where somebody, or a random program, looks. The suite is measured by
//     backends that are wrong on purpose (make mutate). Those that it doesn't find are listed in
//     internal/reference/survivors.txt, with what the suite lacks.
//   - Sizes end somewhere: 300 leases and 200 waiters at a time, TTLs of seconds on real servers.
//     Hours and days pass in bubbles only.
//   - All Lockers run on one machine. Package proxy relays TCP, so a kernel acknowledges what no
//     service has seen. What happens when packets are lost needs a network of its own; see
//     integration/cut.
//   - A server is stopped by its process. A disk that loses what it acknowledged, or a virtual
//     machine that is set back, is not tried.
//   - A run that has passed once may fail the next time: on a real server many moments have to
//     coincide. Run it often, with -race.
//   - Nothing is said about speed, or about the storage behind the lock. Package fencetest tests
//     the check of tokens there.
//
// # Packs
//
// A pack is a list of cases that only one backend has, because only its service does such things to
// clients: a cluster that moves a key, a server that is read-only, a connection pooler. Harness.Pack
// has them, and they run after the cases of the suite. A case gets the harness as its second
// argument, and its steps are in package step. The packs of this project have IDs that begin with I.
//
//	var readOnlyServer = conformance.Case{
//		ID: "I1", Name: "read-only-server-is-no-held-lock", Run: readOnly,
//		Why: "a server that refuses writes after a failover must look like a failure",
//	}
//
//	func readOnly(t conformance.T, h *conformance.Harness) {
//		l, name := h.OpenLocker(t), step.LockName(t)
//		makeReadOnly(t)
//		step.WantFailure(t, h.Slack, l, name)
//		makeWritable(t)
//		step.FreeWithin(t, h.RemovalLimit(), l, name)
//	}
package conformance
