package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker"
)

// Case is one behaviour that a backend must show.
type Case struct {
	ID   string // group and number, such as "B22"; ".1", ".2" are further parts of one behaviour
	Name string // what is seen when it holds
	Why  string // one sentence that a failing run prints: what goes wrong for users otherwise

	// Needs is the guarantee that promises this behaviour; nil: every backend must show it. The case runs wherever the
	// guarantee is claimed and can't be opted out of there.
	Needs locker.Requirement

	// Probe says that seeing the behaviour proves the guarantee: the case runs where it is not claimed as well, and when
	// it passes there the backend is said to claim too little.
	Probe bool

	// Hooks are what the case needs of the harness.
	Hooks []Hook

	Run func(t T, h *Harness)
}

func (c Case) String() string { return c.ID + "-" + c.Name }

// Cases returns the suite, in order.
func Cases() []Case {
	return slices.Concat(coreCases, waitingCases, queueCases, ttlCases, ownershipCases, ghostCases, tokenCases, restartCases,
		fencingCases, lossCases, stressCases, nameCases, configCases, manifestCases)
}

// all needs every one of reqs.
func all(reqs ...locker.Requirement) locker.Requirement { return allOf(reqs) }

type allOf []locker.Requirement

func (reqs allOf) Check(g locker.Guarantees) error {
	var missing []error
	for _, r := range reqs {
		missing = append(missing, r.Check(g))
	}
	return errors.Join(missing...)
}

// noTTL needs a backend whose leases never end by time.
type noTTL struct{}

func (noTTL) Check(g locker.Guarantees) error {
	if !g.Expiry.TTL {
		return nil
	}
	return fmt.Errorf("leases must not end by time, and %s has: %v", g.Backend, g.Expiry)
}

// tokensByClock needs tokens that a clock keeps increasing when the service has lost its data. Durable ones are part of
// the data.
type tokensByClock struct{}

func (tokensByClock) Check(g locker.Guarantees) error {
	if g.Fencing == locker.FencingUntilDataLoss {
		return nil
	}
	return fmt.Errorf("tokens must survive the loss of all data by a clock, and %s has: %v", g.Backend, g.Fencing)
}
