package locker

import "fmt"

// Requirement is something that a program needs of its locker. A [Purpose] is one, and so is
// [RequireTTL]. A value of [Scope], [Tolerance], [Exclusion], [Fencing], [Clocks], [Order],
// [Waiting], [Revocation], [Restart], [Inspection], [Breaking] or [ExpiryBy] requires at least that
// much: [FencingDurable], [OrderFIFO], [ScopeNetwork], … Prices can't be required: [Cost], and the
// round trips.
type Requirement interface {
	// Check returns nil when g is good enough, and otherwise an error that names the missing guarantee.
	Check(g Guarantees) error
}

// Require checks guarantees against requirements. Its error matches [ErrGuarantee], names each requirement that
// is not met, and gives the reason of [Guarantees.Because] if there is one.
func Require(g Guarantees, reqs ...Requirement) error {
	var missing []error
	for _, r := range reqs {
		if err := r.Check(g); err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if g.Because != "" {
		return fmt.Errorf("%w: %w (%s)", ErrGuarantee, join(missing...), g.Because)
	}
	return fmt.Errorf("%w: %w", ErrGuarantee, join(missing...))
}

// Purpose is what a lock is for. The distinction is Martin Kleppmann's ("How to do distributed locking", 2016).
type Purpose int

const (
	// Efficiency is to save work: two holders at once are a nuisance. It requires that the lock of a dead holder
	// is freed.
	Efficiency Purpose = iota + 1
	// Correctness is to protect data: two writers at once would corrupt it. It requires that exclusion depends on
	// a database, a kernel or consensus, and tokens that keep increasing, for the storage to check. Exclusion must
	// not depend on a client's clock showing the right time; only its speed must be right. A clock of the service
	// may count the TTL of a silent holder: if that clock jumps, the next holder gets in too early, and its token
	// keeps the first holder's writes out. Correctness doesn't say how far the lock reaches: the lock of a file
	// keeps out the processes of one machine. See [ScopeNetwork].
	Correctness
)

func (p Purpose) String() string { return word(p, "efficiency", "correctness") }

func (p Purpose) Check(g Guarantees) error {
	var needs []Requirement
	switch p {
	case Efficiency:
		needs = []Requirement{ExpiryProcess}
	case Correctness:
		needs = []Requirement{ExclusionDatabase, FencingDurable, ClocksServer, ExpiryProcess}
	default:
		return fmt.Errorf("unknown purpose %d", int(p))
	}
	for _, need := range needs {
		if err := need.Check(g); err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
	}
	return nil
}

// RequireTTL requires that a holder loses the lock after the TTL when it is stopped or cut off, but not dead.
var RequireTTL Requirement = silentHolder{}

type silentHolder struct{}

func (silentHolder) Check(g Guarantees) error {
	if g.Expiry.TTL {
		return nil
	}
	return fmt.Errorf("a silent holder must lose the lock after a TTL, but %s has: %v", g.Backend, g.Expiry)
}

func (v Scope) Check(g Guarantees) error      { return atLeast("scope", v, g.Scope, g) }
func (v Tolerance) Check(g Guarantees) error  { return atLeast("fault tolerance", v, g.Tolerance, g) }
func (v Exclusion) Check(g Guarantees) error  { return atLeast("mutual exclusion", v, g.Exclusion, g) }
func (v Fencing) Check(g Guarantees) error    { return atLeast("fencing", v, g.Fencing, g) }
func (v Clocks) Check(g Guarantees) error     { return atLeast("clocks assumed", v, g.Clocks, g) }
func (v Order) Check(g Guarantees) error      { return atLeast("order", v, g.Order, g) }
func (v Waiting) Check(g Guarantees) error    { return atLeast("waiting", v, g.Waiting, g) }
func (v Revocation) Check(g Guarantees) error { return atLeast("revocation", v, g.Revocation, g) }
func (v Restart) Check(g Guarantees) error    { return atLeast("restart leaves", v, g.Restart, g) }
func (v Inspection) Check(g Guarantees) error { return atLeast("inspection", v, g.Inspection, g) }
func (v Breaking) Check(g Guarantees) error   { return atLeast("break", v, g.Break, g) }
func (v ExpiryBy) Check(g Guarantees) error   { return atLeast("dead holder ends by", v, g.Expiry.By, g) }

func atLeast[T interface {
	~int
	fmt.Stringer
}](field string, need, have T, g Guarantees) error {
	if have >= need && need > 0 {
		return nil
	}
	return fmt.Errorf("%s must be %v or better, but %s has: %v", field, need, g.Backend, have)
}
