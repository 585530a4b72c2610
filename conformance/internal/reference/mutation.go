package reference

import "slices"

// Mutation is one serious defect that a real backend could have.
type Mutation struct {
	Name    string
	Kind    string
	Why     string  // which adapter could have it, and the harm
	Dialect Dialect // of the service that has it

	change func(*steps)
}

// Mutations returns all of them, by kind.
func Mutations() []Mutation {
	return slices.Concat(whoMutations, whenMutations, countMutations, orderMutations, saidMutations, currentMutations, connMutations,
		lastsMutations)
}
