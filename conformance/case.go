package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fencedlock/locker"
)

// Case is one behaviour that a backend must show.
type Case struct {
	ID   string // group and number, such as "B22"; ".1" and ".2" are further parts of one behaviour
	Name string // what is seen when the backend shows the behaviour
	Why  string // why it matters to users: one sentence, which a failing run prints

	// Needs is the guarantee that promises this behaviour. Nil: every backend must show it. The
	// case runs wherever the guarantee is claimed; a backend that claims it can't leave the case
	// out.
	Needs locker.Requirement

	// Probe says that the behaviour proves the guarantee. The case runs also where the guarantee is
	// not claimed, and if it passes there, the result is Unclaimed.
	Probe bool

	// Hooks are the hooks of the harness that the case needs.
	Hooks []Hook

	// Run fails t unless the backend shows the behaviour. h is the case's own copy of the harness,
	// with the defaults filled in. Package step has the steps that cases are made of.
	Run func(t T, h *Harness)
}

func (c Case) String() string { return c.ID + "-" + c.Name }

// Cases returns the suite, in order.
func Cases() []Case {
	return slices.Concat(coreCases, silenceCases, waitingCases, queueCases, ttlCases, minHoldCases, ownershipCases, ghostCases, tokenCases, restartCases,
		fencingCases, lossCases, forgottenCases, stressCases, nameCases, configCases, inspectionCases, breakCases,
		severalCases, manifestCases, reentrantCases, permitCases, slotCases)
}

// all requires each of reqs.
func all(reqs ...locker.Requirement) locker.Requirement { return allOf(reqs) }

type allOf []locker.Requirement

func (reqs allOf) Check(g locker.Guarantees) error {
	var missing []error
	for _, r := range reqs {
		missing = append(missing, r.Check(g))
	}
	return errors.Join(missing...)
}

// noTTL requires a backend whose leases never end by time.
type noTTL struct{}

func (noTTL) Check(g locker.Guarantees) error {
	if !g.Expiry.TTL {
		return nil
	}
	return fmt.Errorf("leases must not end by time, and %s has: %v", g.Backend, g.Expiry)
}

// tokensByClock requires tokens that keep rising, by a clock, when the service has lost its data.
// Durable tokens are part of the data.
type tokensByClock struct{}

func (tokensByClock) Check(g locker.Guarantees) error {
	if g.Fencing == locker.FencingUntilDataLoss {
		return nil
	}
	return fmt.Errorf("tokens must survive the loss of all data by a clock, and %s has: %v", g.Backend, g.Fencing)
}
