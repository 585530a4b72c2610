// Package kit is what the backends of this project share, and authors of further backends may use.
// The contract, and all that a backend must know, is in package driver, which knows nothing of kit.
// A backend takes from here what fits.
//
//   - Requests: [Lanes] send requests, many in one message under load. Where the round trip is long,
//     more messages are under way at the same time.
//   - Sessions: [Sessions] have one session for each TTL in use. [Flight] makes something once for all
//     callers that want it at the same time.
//   - Goroutines: [Tasks] are the goroutines for which a driver's Close waits. [Signal] wakes a waiter,
//     or lets it look again after a time. [Sleep] waits for a time, and returns false when its
//     context ended first. [Parallel] makes several calls at the same time, up to a limit.
//   - Time limits: [Overdue] tells a time limit of the driver's own from the caller's, which [GaveUp]
//     adds to an error.
//   - Keys and values: [SlotText] and [ParseSlot] write a slot in a key and read it. [Marked] and
//     [ReadMarked] do that for the mark of an operator who takes the lock away.
//   - Opening: [Params] and [TLSFiles] read a URL. [TTLBounds], [CheckPrefix] and [CheckVersion] refuse what
//     can't work. [Opening] bounds what is asked of the service, and [OpenError] is what a constructor
//     returns.
package kit
