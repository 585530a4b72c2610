package integration

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

// sample is a series and its value at some moment.
type sample struct {
	labels map[string]string // with the metric's name
	value  float64
}

// groupsAbove evaluates an expression like max by (locker_group) (METRIC{…}) > LIMIT, and returns the
// groups for which it is true.
func groupsAbove(t *testing.T, expr string, samples []sample) (groups []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	above, ok := parsed.(*parser.BinaryExpr)
	if !ok || above.Op != parser.GTR {
		t.Fatalf("%s: want a comparison with >", expr)
	}
	limit, isNumber := above.RHS.(*parser.NumberLiteral)
	most, isMax := above.LHS.(*parser.AggregateExpr)
	if !isNumber || !isMax || most.Op != parser.MAX || !slices.Contains(most.Grouping, "locker_group") {
		t.Fatalf("%s: want max by (…, locker_group) and a number", expr)
	}
	selector, ok := most.Expr.(*parser.VectorSelector)
	if !ok {
		t.Fatalf("%s: want the maximum of a metric", expr)
	}
	for _, s := range samples {
		matches := s.value > limit.Val
		for _, m := range selector.LabelMatchers {
			matches = matches && m.Matches(s.labels[m.Name])
		}
		if matches {
			groups = append(groups, cmp.Or(s.labels["locker_group"], "none"))
		}
	}
	return groups
}

// A leader holds its lock for days while the other candidates wait, and nothing is wrong. A lock that
// somebody has forgotten is found all the same, also in a program whose locks have no groups.
func TestAlertsLeaveElectionsOut(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir, "docs/observability/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, rule := range file.Groups[0].Rules {
		test, known := map[string]struct {
			metric string
			after  time.Duration
		}{
			"WaitTooLong": {"locker_acquire_oldest_wait_seconds", 10 * time.Minute},
			"HeldTooLong": {"locker_lease_oldest_seconds", 2 * time.Hour},
		}[rule.Alert]
		if !known {
			continue
		}
		alerts++
		pending, err := model.ParseDuration(rule.For)
		if err != nil {
			t.Fatal(err)
		}
		value := (test.after - time.Duration(pending)).Seconds() // above the limit from then on
		of := func(group string) sample {
			labels := map[string]string{model.MetricNameLabel: test.metric, "job": "billing", "locker_backend": "redis"}
			if group != "" {
				labels["locker_group"] = group
			}
			return sample{labels, value}
		}
		for _, c := range []struct {
			samples []sample
			want    string
		}{
			{[]sample{of("elections")}, ""},
			{[]sample{of("controllers")}, "controllers"},
			{[]sample{of("")}, "none"},
			{[]sample{of("elections"), of("invoices")}, "invoices"},
		} {
			if got := groupsAbove(t, rule.Expr, c.samples); strings.Join(got, " ") != c.want {
				t.Errorf("%s for %v: fires for the groups %q, want %q", rule.Alert, c.samples, got, c.want)
			}
		}
	}
	if alerts != 2 {
		t.Errorf("found %d of the two alerts on long waits and holds", alerts)
	}
}
