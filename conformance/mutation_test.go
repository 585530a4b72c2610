package conformance_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/internal/reference"
)

// score is what the suite says of one mutation.
type score struct {
	mutation reference.Mutation
	byCase   string                                  // the first case that fails; "": none does
	found    [len(seeds)]*conformance.Counterexample // by Explore alone, from each seed; nil: nothing
	took     time.Duration
}

// seeds are far apart, because a search goes on from one seed to the next.
var seeds = [...]uint64{1, 1_000_001, 3_000_001}

func (s score) refused() bool {
	return s.byCase != "" || slices.ContainsFunc(s.found[:], func(c *conformance.Counterexample) bool { return c != nil })
}

// refusedByCases are the mutations that a case must refuse in each run.
var refusedByCases = []string{
	"acquire-compares-session", "base-from-reply", "connections-end-frees-locks",
	"counter-deleted-with-the-lock", "counter-in-ranges", "counter-lost-by-a-restart",
	"counter-written-now-and-then", "current-from-a-cache", "current-without-prefix", "escapes-decoded",
	"expiry-at-whole-seconds", "expiry-by-a-sweeper", "expiry-by-the-clients-clock",
	"expiry-noticed-by-requests-only", "hand-over-keeps-the-ttl", "hundredth-request-of-a-connection-lost",
	"lifo-beyond-32", "names-cut-at-63", "names-lower-cased", "owner-compared-by-its-start",
	"path-cleaned", "refusal-by-the-service-is-held", "refusal-sets-the-ttl",
	"refused-release-is-nil", "refused-try-leaves-a-place", "release-acknowledged-and-not-done", "release-by-pattern",
	"release-compares-session", "release-without-owner", "renewal-adds-a-ttl",
	"renewal-by-the-default-ttl", "renewal-of-nothing-is-good", "renewal-without-answer-is-good",
	"replies-matched-by-order", "restart-forgets-new-locks", "token-is-a-clock-of-ms",
	"token-is-the-clients-clock", "tokens-begin-again-when-data-is-lost", "trailing-dot-dropped",
	"ttl-1000-times", "ttl-in-16-bits-of-ms", "ttl-in-31-bits-of-ms", "ttl-in-32-bits-of-us", "ttl-in-whole-seconds", "ttl-spread", "unanswered-renewal-is-loss",
	"unicode-composed",
}

// TestMutations measures the suite: how many of the wrong backends of package reference does it
// refuse? LOCKER_MUTATE is a regular expression for names: these mutations are evaluated, and a table
// is printed. Without it, the test looks at the list, and evaluates some mutations that a case must
// refuse.
func TestMutations(t *testing.T) {
	mutations := reference.Mutations()
	wellFormed(t, mutations)
	names, all := os.LookupEnv("LOCKER_MUTATE")
	if all {
		wanted, err := regexp.Compile(names)
		if err != nil {
			t.Fatal(err)
		}
		mutations = slices.DeleteFunc(mutations, func(m reference.Mutation) bool { return !wanted.MatchString(m.Name) })
	} else {
		mutations = slices.DeleteFunc(mutations, func(m reference.Mutation) bool { return !slices.Contains(refusedByCases, m.Name) })
		rand.Shuffle(len(mutations), func(i, j int) { mutations[i], mutations[j] = mutations[j], mutations[i] })
		mutations = mutations[:4]
		for _, m := range mutations {
			t.Logf("chosen: %s", m.Name)
		}
	}
	scores := evaluate(t, mutations, all)
	if all {
		fmt.Print(table(scores))
	}
	for _, s := range scores {
		if s.byCase == "" && slices.Contains(refusedByCases, s.mutation.Name) {
			t.Errorf("%s passes all cases, and one should refuse it", s.mutation.Name)
		}
	}
}

func wellFormed(t *testing.T, mutations []reference.Mutation) {
	t.Helper()
	var names []string
	for _, m := range mutations {
		if slices.Contains(names, m.Name) {
			t.Errorf("there are two mutations %s", m.Name)
		}
		names = append(names, m.Name)
		if m.Kind == "" || len(strings.Fields(m.Why)) < 8 {
			t.Errorf("mutation %s has kind %q and doesn't say which backend could have it: %q", m.Name, m.Kind, m.Why)
		}
	}
	for _, name := range refusedByCases {
		if !slices.Contains(names, name) {
			t.Errorf("there is no mutation %s", name)
		}
	}
}

// evaluate runs the cases on each mutation until one of them fails, and then Explore if that is
// wanted.
func evaluate(t *testing.T, mutations []reference.Mutation, explore bool) []score {
	t.Helper()
	var mu sync.Mutex
	var scores []score
	t.Run("mutation", func(t *testing.T) {
		for _, m := range mutations {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				s := score{mutation: m, byCase: firstFailure(t, m)}
				for i, seed := range seeds {
					if explore {
						s.found[i] = conformance.Search(t, reference.Harness(&m, m.Dialect), searchBudget, seed)
					}
				}
				s.took = time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				scores = append(scores, s)
				if explore {
					fmt.Printf("%3d %s\n", len(scores), strings.Join(s.columns(), "  "))
				}
			})
		}
	})
	return scores
}

// searchBudget counts operations only, so that a busy machine changes nothing.
var searchBudget = conformance.Budget{Steps: 40_000, Time: 10 * time.Minute, Shrink: -1}

// firstFailure returns the ID of the first case that fails; "": all pass. The cases with load come
// last, because they take most of the time.
func firstFailure(t *testing.T, m reference.Mutation) (failed string) {
	cases := conformance.Cases()
	slices.SortStableFunc(cases, func(a, b conformance.Case) int {
		return cmp.Compare(strings.Count(a.ID[:1], "G"), strings.Count(b.ID[:1], "G"))
	})
	h := reference.Harness(&m, m.Dialect)
	h.Scale = 0.3
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			err := conformance.Evaluate(t.Context(), h, []conformance.Case{c}, func(r conformance.Result) {
				if r.Verdict == conformance.Failed {
					failed = c.ID
					t.Logf("%s:\n%s", c.ID, r.Log)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
		if failed != "" {
			return failed
		}
	}
	return ""
}

// columns are a line of the table.
func (s score) columns() []string {
	line := []string{s.mutation.Name, s.mutation.Kind, cmp.Or(s.byCase, "-")}
	broken := "-"
	for _, c := range s.found {
		if c == nil {
			line = append(line, "-")
			continue
		}
		line = append(line, fmt.Sprint(c.Found))
		if broken == "-" {
			broken = c.Breach.Invariant
		}
	}
	return append(line, broken, s.took.Round(time.Millisecond).String())
}

// table lists the mutations that are refused by kind, and then the others.
func table(scores []score) string {
	rank := func(s score) int {
		if s.refused() {
			return 0
		}
		return 1
	}
	slices.SortFunc(scores, func(a, b score) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.mutation.Kind, b.mutation.Kind),
			strings.Compare(a.mutation.Name, b.mutation.Name))
	})
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTATION\tKIND\tCASE\tSEED 1\tSEED 2\tSEED 3\tINVARIANT\tTIME")
	var byCase, byAny int
	var bySeed [len(seeds)]int
	for _, s := range scores {
		fmt.Fprintln(w, strings.Join(s.columns(), "\t"))
		byCase += min(len(s.byCase), 1)
		byAny += 1 - rank(s)
		for i, c := range s.found {
			if c != nil {
				bySeed[i]++
			}
		}
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "%d mutations; refused by cases: %d, by Explore from each seed: %v, by any: %d\n", len(scores), byCase, bySeed, byAny)
	return b.String()
}
