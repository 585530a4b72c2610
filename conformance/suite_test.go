package conformance_test

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// caseID has four parts: group, number, the letter of a behaviour that was added later, and the
// part.
var caseID = regexp.MustCompile(`^([A-Z])(\d+)([a-z]?)(?:\.(\d+))?$`)

func TestCasesAreCompleteAndInOrder(t *testing.T) {
	hooks := reflect.TypeFor[conformance.Hooks]()
	var last []string
	for _, c := range conformance.Cases() {
		id := caseID.FindStringSubmatch(c.ID)
		if id == nil {
			t.Errorf("case %q has no ID of the usual form", c.ID)
			continue
		}
		if last != nil && !before(t, last, id) {
			t.Errorf("case %s comes after %s", c.ID, last[0])
		}
		last = id
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(c.Name) {
			t.Errorf("case %s has the name %q, want a few words with hyphens", c.ID, c.Name)
		}
		if len(strings.Fields(c.Why)) < 8 {
			t.Errorf("case %s doesn't say why it matters: %q", c.ID, c.Why)
		}
		if c.Run == nil {
			t.Errorf("case %s has no body", c.ID)
		}
		for _, hook := range c.Hooks {
			if _, ok := hooks.FieldByName(string(hook)); !ok {
				t.Errorf("case %s needs the hook %s, and there is none", c.ID, hook)
			}
		}
		if c.Probe && c.Needs == nil {
			t.Errorf("case %s is a probe for no guarantee", c.ID)
		}
	}
}

// before compares IDs, part by part. A case without a part comes before its parts.
func before(t *testing.T, a, b []string) bool {
	number := func(s string) int {
		if s == "" {
			return 0
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := 1; i < len(a); i++ {
		if a[i] == b[i] {
			continue
		}
		if i == 2 || i == 4 {
			return number(a[i]) < number(b[i])
		}
		return a[i] < b[i]
	}
	return false
}

// TestEveryBehaviourHasACase knows the numbers of the list that the suite was made from, except for
// the behaviours of single backends.
func TestEveryBehaviourHasACase(t *testing.T) {
	var have []string
	for _, c := range conformance.Cases() {
		id := caseID.FindStringSubmatch(c.ID)
		have = append(have, id[2]+id[3])
	}
	want := []string{"24a", "39a", "39b"}
	for n := 1; n <= 62; n++ {
		if n != 60 { // hash collisions: of Postgres
			want = append(want, strconv.Itoa(n))
		}
	}
	for n := 63; n <= 77; n++ {
		want = append(want, strconv.Itoa(n))
	}
	for _, n := range want {
		if !slices.Contains(have, n) {
			t.Errorf("behaviour %s has no case", n)
		}
	}
}

// TestEveryGuaranteeIsNeeded finds for each field of Guarantees a case that runs only where it is
// claimed, or a reason.
func TestEveryGuaranteeIsNeeded(t *testing.T) {
	otherwise := map[string]string{
		"Backend":    "a name",
		"Scope":      "the harness decides which processes and machines there are: D38, E40.1 and G54 use them",
		"Exclusion":  "seen when servers fail, in the backends' packs",
		"RoundTrips": "a price, which can't be required: M3 counts them",
		"Cost":       "an opinion",
		"Because":    "a text for people",
	}
	best := locker.Guarantees{}
	v := reflect.ValueOf(&best).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int && f.Type() != reflect.TypeFor[int]() {
			f.SetInt(100)
		}
	}
	best.Expiry = locker.Expiry{By: 100, TTL: true}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		less := best
		reflect.ValueOf(&less).Elem().Field(i).SetZero()
		var needed []string
		for _, c := range conformance.Cases() {
			if c.Needs != nil && c.Needs.Check(best) == nil && c.Needs.Check(less) != nil {
				needed = append(needed, c.ID)
			}
		}
		switch reason := otherwise[name]; {
		case len(needed) == 0 && reason == "":
			t.Errorf("no case needs Guarantees.%s", name)
		case len(needed) > 0 && reason != "":
			t.Errorf("Guarantees.%s is needed by %v after all", name, needed)
		}
	}
}
