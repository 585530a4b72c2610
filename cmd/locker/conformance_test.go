package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

func TestConformance(t *testing.T) {
	backend := "file://" + locksDir(t)
	code, stdout, stderr := runToEnd(t, environ(t), "conformance", "--backend", backend, "--run", "^(A1|B13|E40|B21)-")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q, stdout %s", code, stderr, stdout)
	}
	for _, want := range []string{
		"passed                A1-free-lock-is-granted\n", "not tested            B21-", "dead holder ends by: process ends",
		"4 cases: 3 passed, 0 failed, 1 not tested", "1 of them test guarantees that the backend claims; 1 of those passed",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "why it matters") {
		t.Errorf("without --verbose it says why: %s", stdout)
	}
}

func TestConformanceJSON(t *testing.T) {
	code, stdout, stderr := runToEnd(t, environ(t, "LOCKER_URL=file://"+locksDir(t)), "conformance", "--format", "json", "--run", "^A[12]-")
	var results []map[string]string
	if err := json.Unmarshal([]byte(stdout), &results); err != nil || code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q, stdout %s: %v", code, stderr, stdout, err)
	}
	if len(results) != 2 || results[0]["id"] != "A1" || results[0]["verdict"] != "passed" || results[1]["why"] == "" {
		t.Errorf("JSON = %v, want the results of A1 and A2", results)
	}
}

// A process of this program holds the lock in the cases that kill or stop one.
func TestConformanceProcess(t *testing.T) {
	code, stdout, _ := runToEnd(t, environ(t), "conformance", "--backend", "file://"+locksDir(t), "--run", "^D38-")
	if code != 0 || !strings.Contains(stdout, "1 passed") {
		t.Errorf("code %d, stdout %s, want it passed", code, stdout)
	}
}

func TestConformanceErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"redis://:sesame@x"}, exitUsage, "belongs to --backend"},
		{[]string{"--run", "("}, exitUsage, "--run"},
		{[]string{"--run", "^Z9"}, exitUsage, "no case"},
		{[]string{"--format", "yaml"}, exitUsage, "--format"},
		{[]string{"--ttl", "0", "--backend", "redis://127.0.0.1:1"}, exitUsage, "TTL 0s: want a positive time"},
		{[]string{"--ttl", "-1s", "--backend", "redis://127.0.0.1:1"}, exitUsage, "TTL -1s: want a positive time"},
		{[]string{"--backend", "mem://x"}, exitUsage, "one process"},
		{[]string{"--backend", "redis://:sesame@127.0.0.1:1"}, exitService, "refused"},
	} {
		code, stdout, stderr := runToEnd(t, environ(t), append([]string{"conformance"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || stdout != "" || strings.Contains(stderr, "sesame") {
			t.Errorf("conformance %v: code %d, stdout %q, stderr %q, want %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
	}
}

// A case that has failed says all that is known of it.
func TestVerdicts(t *testing.T) {
	var out strings.Builder
	v := &verdicts{w: &out}
	c := conformance.Case{ID: "A1", Name: "is-so", Why: "it must be so", Needs: locker.OrderFIFO}
	v.add(conformance.Result{Case: c, Verdict: conformance.Failed, Log: "got this\nwant that\n"})
	v.add(conformance.Result{Case: c, Verdict: conformance.Passed, Reason: "no reason"})
	v.add(conformance.Result{Case: c, Verdict: conformance.Unclaimed, Reason: "claims too little"})
	v.sum()
	want := `failed                A1-is-so
    why it matters: it must be so
    got this
    want that
passed                A1-is-so
seen but not claimed  A1-is-so
    claims too little

3 cases: 1 passed, 1 failed, 1 not tested (not claimed, or faults would be needed)
2 of them test guarantees that the backend claims; 1 of those passed
`
	if out.String() != want {
		t.Errorf("the report is\n%s\nwant\n%s", out.String(), want)
	}
}
