package main

import (
	"net/netip"
	"time"
)

// A contender is a process that the program starts from its own binary. It gets its task in an
// environment variable, orders on its standard input, and sends requests on its standard output.
// Each request but done gets a reply.

// taskVariable is the environment variable that makes a process a contender.
const taskVariable = "LOCKER_CAMPAIGN_CONTENDER"

// task says what a contender uses.
type task struct {
	Backend, Library string
	Workload         string
	Number           int    // of the contender in its round, from 1
	Seed             uint64 // of what its updates do
	Addrs            []string
	TTL              time.Duration
	Name             string // of the lock
	Fence            bool   // tokens are given to the store
	Network          int    // a process in the servers' network, if packets may be dropped; 0: none
	From             netip.Addr
	Delay            time.Duration     // how much longer each answer of the servers takes
	Via              map[string]string // by address: the relay that leads there
	program          string            // the contender's; empty: this one
}

// order is what the program wants a contender to do.
type order struct {
	Do        string          // one of the following
	Thinks    []time.Duration // between read and write: one for each update
	Limit     time.Duration   // for each acquisition
	Unchecked bool            // of hold: write without another look at the lock
}

const (
	doUpdate = "update" // acquire, read, think, write, release
	doHold   = "hold"   // the same once, with the fault between read and write, and a little longer
	doGuard  = "guard"  // acquire, hold until the reply to here, release
	doQuit   = "quit"
)

// request is what a contender says.
type request struct {
	Say      string // one of the following
	Token    int64
	Update   int           // of read and write: the id of the update
	Cells    []int         // of read and write; nil: all
	Values   []int         // of write: what is written to the cells
	Sections []section     // of done
	Slack    time.Duration // of ready
	Error    string        // of done and ready: what failed
}

const (
	sayReady = "ready" // it can execute orders
	sayRead  = "read"  // the store is read, after the token was claimed
	sayWrite = "write"
	sayHere  = "here" // the fault may begin; the reply comes when the section may go on
	sayOver  = "over" // the section has written, or has given up
	sayDone  = "done" // the order is executed
)

// reply is the answer to a request.
type reply struct {
	Values  []int         // of the cells that were read
	Refused bool          // by the fence
	Ahead   time.Duration // by which the wall clock is ahead from now on; 0: it stays as it is
}

// section is what a contender knows of one critical section.
type section struct {
	Token    int64
	Asked    moment // before the acquisition began
	Granted  moment // after it returned
	Held     moment // before the last look that showed the lock as held
	Lost     moment // after the first look that showed it as lost; 0: none did
	Deadline moment // of the lease, as the last look showed it; 0: it has none
	Released moment // before the release began; 0: it didn't
	Returned bool   // a look showed it as held after one that showed it as lost
	Error    string // of the release

	Cause string        // why it was lost, as the library says
	Gap   time.Duration // the longest time from one look to the next
}
