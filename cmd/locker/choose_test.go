package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/fencedlock/locker/cmd/locker/internal/choice"
)

func TestChoose(t *testing.T) {
	code, stdout, stderr := runToEnd(t, environ(t), "choose", "--work", "other", "--among", "network", "--for", "correctness",
		"--have", "etcd", "--data", "redis", "--require", "order-fifo")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q, want 0 and nothing", code, stderr)
	}
	for _, want := range []string{"Take etcd.", "etcd://", "Why:", "What it does not promise:", "In addition:", "fenceredis"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("choose lacks %q:\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("a line has %d characters: %q", n, line)
		}
	}
}

func TestChooseErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--work", "other"}, "among"},
		{[]string{"--work", "sleep"}, `--work: "sleep" is no answer`},
		{[]string{"--work", "jobs", "--require", "everything"}, "--require"},
		{[]string{"--work", "other", "--among", "machine", "--for", "efficiency", "--require", "order-fifo,scope-network,exclusion-consensus,revocation-at-once,restart-leases,clocks-none"}, "no backend is good enough"},
	} {
		code, stdout, stderr := runToEnd(t, environ(t), append([]string{"choose"}, test.args...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("choose %v: code %d, stdout %q, stderr %q, want %d and %q", test.args, code, stdout, stderr, exitUsage, test.want)
		}
	}
}

func TestChooseAsksAgain(t *testing.T) {
	var out strings.Builder
	in := bufio.NewScanner(strings.NewReader("9\nrecord\n"))
	answer, err := askOne(&out, in, choice.Questions[0])
	if err != nil || len(answer) != 1 || answer[0] != "record" {
		t.Errorf("the answer is %v, %v, want record", answer, err)
	}
	if text := out.String(); !strings.Contains(text, "4  jobs") || !strings.Contains(text, `"9" is no answer`) {
		t.Errorf("it asks\n%s", text)
	}
	if _, err := askOne(&out, in, choice.Questions[0]); err == nil || !strings.Contains(err.Error(), "--work") {
		t.Errorf("at the end of the input the error is %v, want one that names the flag", err)
	}
}
