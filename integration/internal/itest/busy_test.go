//go:build unix

package itest

import (
	"strings"
	"testing"
	"time"
)

func TestLatenessOfACase(t *testing.T) {
	began := time.Now()
	var l lateness
	l.add(late{began.Add(-time.Second), 9 * time.Second}) // ended before the case began
	if got := l.since(began); !strings.HasPrefix(got, "never late") {
		t.Errorf("without a late moment: %q", got)
	}
	l.add(late{began.Add(time.Second), 612 * time.Millisecond})
	l.add(late{began.Add(2 * time.Second), 150 * time.Millisecond})
	if got, want := l.since(began), "late by up to 612ms, until "+clock(began.Add(time.Second)); got != want {
		t.Errorf("since = %q, want %q", got, want)
	}
}

func TestParseProcessors(t *testing.T) {
	waited, stolen, err := parseProcessors(
		"some avg10=55.62 avg60=46.46 avg300=35.31 total=189990206\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"cpu  9311 0 13151 32685 991 0 219 1024 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if waited != 189990206*time.Microsecond || stolen != 10240*time.Millisecond || err != nil {
		t.Errorf("parseProcessors = %v, %v, %v", waited, stolen, err)
	}
	for _, bad := range [][2]string{{"", "cpu 1 2 3 4 5 6 7 8"}, {"some total=1", ""}, {"some total=1", "cpu 1 2 3 4 5 6 7 x"}} {
		if _, _, err := parseProcessors(bad[0], bad[1]); err == nil {
			t.Errorf("parseProcessors(%q, %q) = nil, want an error", bad[0], bad[1])
		}
	}
}
