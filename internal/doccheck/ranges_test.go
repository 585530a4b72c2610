package doccheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// rangeOf finds the ranges of an expression of Prometheus, as in rate(METRIC[5m]).
var rangeOf = regexp.MustCompile(`\[([^\]]*)\]`)

// leastRange is four times the longest scrape interval that is common. rate and increase need two samples in
// the range.
const leastRange = 4 * time.Minute

// daysOf finds ranges in Prometheus' units that time.ParseDuration doesn't know: days, weeks and years.
var daysOf = regexp.MustCompile(`^[1-9][0-9]*[dwy]$`)

// tooShort says why rate and increase may find too few samples in a range; empty: they don't.
func tooShort(text string) string {
	if text == "$__rate_interval" || daysOf.MatchString(text) { // Grafana's is four scrape intervals at least
		return ""
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Sprintf("[%s]: want [$__rate_interval], or a time such as [5m]", text)
	case d < leastRange:
		return fmt.Sprintf("[%s]: want [$__rate_interval], or %v and more: two scrapes must be in it", text, leastRange)
	}
	return ""
}

// Every range of the dashboard and of the alerts has samples, as long as there is a scrape each minute, and
// Grafana knows how often.
func TestRangesHaveSamples(t *testing.T) {
	for name, least := range map[string]int{"dashboard.json": 20, "alerts.yaml": 5} {
		text, err := os.ReadFile(filepath.Join(root, "docs/observability", name))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, "rate(") && !strings.Contains(line, "increase(") {
				continue
			}
			for _, m := range rangeOf.FindAllStringSubmatch(line, -1) {
				found++
				if why := tooShort(m[1]); why != "" {
					t.Errorf("docs/observability/%s:%d: %s", name, i+1, why)
				}
			}
		}
		if found < least {
			t.Errorf("docs/observability/%s: found %d ranges, want %d or more", name, found, least)
		}
	}
}

// The check finds what it is there for.
func TestRangesThatAreTooShort(t *testing.T) {
	for text, ok := range map[string]bool{
		"$__rate_interval": true, "5m": true, "4m": true, "10m": true, "1h": true, "1d": true,
		"$__interval": false, "1m": false, "239s": false, "0d": false, "": false, "$__range": false,
	} {
		if why := tooShort(text); (why == "") != ok {
			t.Errorf("[%s]: %q, want it accepted: %v", text, why, ok)
		}
	}
}
