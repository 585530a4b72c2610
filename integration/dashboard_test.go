package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

// metric is one that programs with package otellocker show to Prometheus.
type metric struct {
	kind   string // "counter", "gauge" or "histogram"
	labels []string
}

// shownMetrics reads what the test of examples/observed has found at /metrics.
func shownMetrics(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootDir, "examples/observed/testdata/metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]metric)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		all[fields[0]] = metric{fields[1], append(fields[2:], "job", "instance")}
	}
	if len(all) < 16 {
		t.Fatalf("there are %d metrics", len(all))
	}
	return all
}

// series returns the labels of the series of this name; nil: there is no such series.
func series(all map[string]metric, name string) []string {
	if m, ok := all[name]; ok && m.kind != "histogram" {
		return m.labels
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		family, ok := strings.CutSuffix(name, suffix)
		if m := all[family]; ok && m.kind == "histogram" {
			if suffix == "_bucket" {
				return append(slices.Clone(m.labels), "le")
			}
			return m.labels
		}
	}
	return nil
}

// checkExpr returns what is wrong with an expression: it doesn't parse, or it has metrics or labels
// that don't exist. extra are further names of labels that stand for the expression, as in a legend.
func checkExpr(all map[string]metric, expr string, extra ...string) (problems []string) {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m") // Grafana's
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var known []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels := series(all, s.Name)
		if labels == nil {
			problems = append(problems, fmt.Sprintf("there is no metric %q", s.Name))
		}
		known = append(known, labels...)
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel && labels != nil && !slices.Contains(labels, m.Name) {
				problems = append(problems, fmt.Sprintf("%s has no label %q", s.Name, m.Name))
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			extra = append(extra, a.Grouping...)
		}
		return nil
	})
	for _, label := range extra {
		if !slices.Contains(known, label) {
			problems = append(problems, fmt.Sprintf("no metric here has the label %q", label))
		}
	}
	return problems
}

var (
	legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

func labelsIn(pattern *regexp.Regexp, text string) (list []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// Each query of the dashboard is about metrics and labels that exist.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir, "docs/observability/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	type query struct {
		Expr         string
		LegendFormat string
		TitleFormat  string
	}
	var dashboard struct {
		SchemaVersion int
		Panels        []struct {
			Title   string
			Type    string
			Targets []query
		}
		Annotations struct{ List []query }
		Templating  struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	all, queries := shownMetrics(t), 0
	check := func(where string, q query) {
		queries++
		for _, problem := range checkExpr(all, q.Expr, labelsIn(legendLabel, q.LegendFormat+q.TitleFormat)...) {
			t.Errorf("%s: %s\n%s", where, problem, q.Expr)
		}
	}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("the panel %q has no query", panel.Title)
		}
		for _, q := range panel.Targets {
			if panel.Type == "heatmap" {
				q.LegendFormat = "" // {{le}} is the bucket
			}
			check("panel "+panel.Title, q)
		}
	}
	for _, q := range dashboard.Annotations.List {
		if q.Expr != "" { // Grafana's own has none
			check("annotation", q)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("the variable %s is %q, want label_values(QUERY, LABEL)", v.Name, v.Definition)
			continue
		}
		check("variable "+v.Name, query{Expr: m[1], LegendFormat: "{{" + m[2] + "}}"})
	}
	if queries < 30 || dashboard.SchemaVersion == 0 {
		t.Errorf("the dashboard has %d queries, and is of version %d", queries, dashboard.SchemaVersion)
	}
}

// rules is a file of rules for Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// Prometheus accepts each alert, its metrics and labels exist, and its section of the runbook, too.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir, "docs/observability/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	runbook := anchors(t, filepath.Join(rootDir, "docs/runbook.md"))
	all, alerts := shownMetrics(t), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			alerts++
			var texts string
			for _, annotation := range rule.Annotations {
				texts += annotation
			}
			for _, problem := range checkExpr(all, rule.Expr, labelsIn(alertLabel, texts)...) {
				t.Errorf("%s: %s\n%s", rule.Alert, problem, rule.Expr)
			}
			if rule.For != "" {
				if _, err := model.ParseDuration(rule.For); err != nil {
					t.Errorf("%s: %v", rule.Alert, err)
				}
			}
			if severity := rule.Labels["severity"]; severity != "page" && severity != "warn" {
				t.Errorf("%s has the severity %q", rule.Alert, severity)
			}
			if section, ok := strings.CutPrefix(rule.Annotations["runbook"], "docs/runbook.md#"); !ok || !slices.Contains(runbook, section) {
				t.Errorf("%s names the section %q of the runbook, which has %v", rule.Alert, rule.Annotations["runbook"], runbook)
			}
		}
	}
	if alerts < 7 {
		t.Errorf("there are %d alerts", alerts)
	}
}

// anchors are the names of a page's sections in links.
func anchors(t *testing.T, file string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`[^\w\- ]`)
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			heading = other.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			list = append(list, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return list
}

// The check finds what it is there for.
func TestQueriesThatAreWrong(t *testing.T) {
	all := shownMetrics(t)
	for expr, want := range map[string]string{
		"sum(locker_lease_activ)":                                              "no metric",
		"sum(locker_lease_duration_seconds)":                                   "no metric",
		"locker_lease_active{locker_cause=\"revoked\"}":                        "no label",
		"sum by (locker_outcome) (locker_lease_active)":                        "no metric here has",
		"rate(locker_lease_lost_total)":                                        "parse error",
		"histogram_quantile(0.9, rate(locker_renew_slack_count{le=\"\"}[5m]))": "no label",
	} {
		if got := strings.Join(checkExpr(all, expr), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
