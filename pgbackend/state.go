package pgbackend

// state is how far a lease has come on its way from a waiter's connection (W) to the shared
// connection (S). A is the lock and G its gate. A lease that was not waited for stays in notMoving:
// it has A on S, and nothing on W. In notMoving are also acquisitions without a lease, leases whose
// move is complete, and leases that stay on W because step 1 has failed.
//
//	state           W has                         S has                     the lease is attached to
//	notMoving       nothing, or anything          nothing, or A             nothing, or S; W after step 1 has failed
//	onWaiter        A and G                       nothing                   W
//	downgrading     A and G, A in either mode     nothing                   W
//	downgraded      A in shared mode, and G       nothing, or A shared      W
//	handingOver     G, and A or not               A in shared mode          W and S
//	handedOver      G                             A in shared mode          W and S
//	upgrading       G                             A in either mode          W and S
//	undecided       G                             A in either mode          W and S
//	upgraded        G                             A                         W and S
//	openingGate     G or not                      A                         W and S
//
// The transitions; the steps are in move.go:
//
//	notMoving     → onWaiter      the waiter's statement is answered
//	onWaiter      → downgrading   step 1 is sent
//	downgrading   → downgraded    step 1 is answered
//	downgrading   → onWaiter      step 1 was not sent
//	downgrading   → notMoving     step 1 has failed: the lease stays on W
//	downgraded    → handingOver   step 2 is answered, and step 3 is about to be sent
//	handingOver   → handedOver    step 3 is answered
//	handedOver    → upgrading     step 4 is about to be sent
//	upgrading     → upgraded      step 4 is answered
//	upgrading     → handedOver    step 4 is refused, or was not sent: the next renewal tries again
//	upgrading     → undecided     step 4 has failed: the lease stays on W and S
//	upgraded      → openingGate   step 5 is about to be sent
//	openingGate   → notMoving     step 5 is answered: the lease is attached to S alone
//	any           → notMoving     the lock is released
type state int

const (
	notMoving state = iota
	onWaiter
	downgrading
	downgraded
	handingOver
	handedOver
	upgrading
	undecided
	upgraded
	openingGate
)

// holding is what a shared connection may have of a lock.
type holding int

const (
	exclusively  holding = iota
	inSharedMode         // from step 2 of a move on
	inEitherMode         // from step 4 on, until its answer
)
