package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each row of the JSON is in the page, with the command of its workload.
func TestReport(t *testing.T) {
	r := &result{Commit: "abc", Seed: 7, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Services: map[string]string{"redis": "Redis 8"}, Parts: 2, Left: map[string]string{"redis, cut": "no iptables"}, Notes: []string{"run again: cut"}, Rows: []*row{
			{Backend: "redis", Fault: "pause", Workload: "set", Library: "locker", Fence: true, Rounds: 5, Acknowledged: 70, Margin: &spread{1, 2, 3}},
			{Backend: "redis", Fault: "nothing", Workload: "counter", Library: "redsync", Rounds: 4, Void: 1, Why: []string{"a | b\nc", strings.Repeat("ä", 101)}, Fails: []string{"no"}},
		}}
	file, page := filepath.Join(t.TempDir(), "r.json"), filepath.Join(t.TempDir(), "proof.md")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(page, nil); err == nil {
		t.Error("a report of no file was written")
	}
	back, err := readResult(file)
	if err != nil {
		t.Fatal(err)
	}
	charts := chartsOf([]*result{back}, "proof")
	text, err := reportOf([]*result{back}, charts)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"commit abc; seed 7; 0 s in 2 parts", "| redis | 5 | 5 | 70 | 0 | 0 | 0 | – | – | 0 |", "servers: Redis 8", "left out: redis, cut: no iptables", "\n- run again: cut\n",
		"| pause | set | locker | yes | 5 | 70 | 0 | 0 | 0 | 1.0 / 2.0 / 3.0 | – |",
		"| nothing | counter | redsync | no | 4 |", "**FAILS**: no", "(a / b, c; " + strings.Repeat("ä", 100) + " …)",
		"![Margin between the holder's knowledge and the rival's grant, redis. No margin is below zero.](proof/margin-redis.svg)",
		"\n    go run . -backend '^redis$' -fault FAULT -rounds 4 -seed 7\n    go run . -backend '^redis$' -fault FAULT -workload set -rounds 5 -seed 7\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(text, "| nothing | counter | redsync") > strings.Index(text, "| pause | set | locker") {
		t.Error("the rows are not in the order of the faults")
	}
	for _, absent := range []string{"| etcd |", "| kill |", "| register |", "redis-sentinel"} {
		if strings.Contains(text, absent) {
			t.Errorf("the page has %q, which did not run", absent)
		}
	}
	if err := writeReport(page, []string{file}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(page), charts[0]["redis"].File)); err != nil {
		t.Errorf("the page has a chart that wasn't written: %v", err)
	}
}

// The page of failovers has a title and commands of its own. Each page begins with a link to its
// results.
func TestTitleOfReport(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sentinel := &row{Backend: "redis-sentinel", Fault: "leader-kill", Workload: counterWorkload, Library: thisProject}
	redis := &row{Backend: "redis", Fault: controlFault, Workload: counterWorkload, Library: thisProject}
	for _, tc := range []struct {
		rows     []*row
		title    string
		wanted   []string
		unwanted string
	}{
		{[]*row{sentinel}, "# Failovers\n", []string{"make failovers", "-report ../docs/failovers.md", "a former primary", "*redis-sentinel*"}, "make campaign"},
		{[]*row{redis}, "# Proof\n", []string{"make campaign", "[failovers.md](failovers.md)"}, "*redis-sentinel*"},
		{[]*row{redis, sentinel}, "# Proof\n", []string{"make campaign", "a former primary", "*redis-sentinel*"}, "failovers.md"},
	} {
		all := []*result{{Started: started, Rows: tc.rows}}
		text, err := reportOf(all, chartsOf(all, "page"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, tc.title) || strings.Contains(text, tc.unwanted) {
			t.Errorf("the page has the title %.20q, and %q: %v, want %q, and not", text, tc.unwanted, strings.Contains(text, tc.unwanted), tc.title)
		}
		for _, want := range append(tc.wanted, "](#the-run-of-2026-01-02-0304-utc)", "\n## The run of 2026-01-02 03:04 UTC\n") {
			if !strings.Contains(text, want) {
				t.Errorf("the page %q lacks %q", tc.title, want)
			}
		}
	}
}

// The pages in docs end with the commands that the program writes now.
func TestCommandsOfPages(t *testing.T) {
	const heading = "\n## How to run it\n"
	for page, backend := range map[string]string{"../docs/proof.md": "redis", "../docs/failovers.md": "redis-sentinel"} {
		all := []*result{{Rows: []*row{{Backend: backend, Fault: controlFault, Workload: counterWorkload, Library: thisProject}}}}
		text, err := reportOf(all, chartsOf(all, "page"))
		if err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, got, found := strings.Cut(string(written), heading)
		if _, want, _ := strings.Cut(text, heading); !found || got != want {
			t.Errorf("%s ends with %q, want %q", page, got, want)
		}
	}
}

// make campaign runs the usual services, and make failovers their other forms.
func TestBackendsOfMake(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for target, variant := range map[string]bool{"campaign": false, "failovers": true} {
		_, text, found := strings.Cut(string(makefile), "\n"+target+": BACKENDS = ")
		if !found {
			t.Fatalf("the Makefile has no BACKENDS of %s", target)
		}
		text, _, _ = strings.Cut(text, "\n")
		s, err := newSelection(strings.ReplaceAll(text, "$$", "$"), "", "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range backends {
			if got := s.backends.MatchString(b.name); got != (b.variant == variant) {
				t.Errorf("make %s runs %s: %v, want %v", target, b.name, got, !got)
			}
		}
	}
}
