package main

import (
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	code, stdout, stderr := runToEnd(t, environ(t), "demo", "--ttl", "200ms")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q, want 0 and nothing", code, stderr)
	}
	fenced, bare, both := strings.Cut(stdout, "Without the fence")
	if !both || !strings.Contains(fenced, "nothing is lost") || !strings.Contains(bare, "are lost") {
		t.Errorf("the demo shows %s", stdout)
	}
}

func TestDemoErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"x"}, exitUsage, "no arguments"},
		{[]string{"--ttl", "-1s"}, exitUsage, "--ttl must be at least 100ms"},
		{[]string{"--ttl", "1ms"}, exitUsage, "--ttl must be at least 100ms"},
		{[]string{"--backend", "mem://demo?ttl=1ms"}, exitUsage, "TTL 1ms"},
		{[]string{"--backend", "file://" + locksDir(t)}, exitUsage, "guarantee is missing"},
		{[]string{"--backend", "redis://:sesame@127.0.0.1:1"}, exitService, "refused"},
	} {
		code, stdout, stderr := runToEnd(t, environ(t), append([]string{"demo"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || stdout != "" || strings.Contains(stderr, "sesame") {
			t.Errorf("demo %v: code %d, stdout %q, stderr %q, want %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
		if strings.Count(stderr, "\n") != 1 {
			t.Errorf("demo %v: stderr %q, want one line", test.args, stderr)
		}
	}
}
