package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runToEnd(t, environ(t), "demo", "--ttl", "1s")
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
		{[]string{"--svg", ""}, exitUsage, "want a file, such as demo.svg"},
		{[]string{"--svg", t.TempDir()}, exitOutput, "--svg: "},
		{[]string{"--svg", "/dev/null"}, exitOutput, "it is no regular file"},
		{[]string{"--svg", filepath.Join(t.TempDir(), "sesame", "demo.svg")}, exitOutput, "--svg: no such file"},
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

func TestDemoPicture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.svg")
	if err := os.WriteFile(file, []byte(strings.Repeat("OLD", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runToEnd(t, environ(t), "demo", "--ttl", "1s", "--svg", file)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "nothing is lost") {
		t.Fatalf("code %d, stdout %q, stderr %q, want 0 and the story", code, stdout, stderr)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "<svg ") || !strings.HasSuffix(text, "</svg>\n") || strings.Contains(text, "OLD") {
		t.Errorf("the picture begins with %.20q and ends with %q", text, text[max(0, len(text)-20):])
	}
	for _, want := range []string{"With the fence", "Without the fence", "storage refuses", "B&#39;s update is gone"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

// A story that fails changes no picture, and leaves no file.
func TestDemoPictureOfFailure(t *testing.T) {
	old, fresh := filepath.Join(t.TempDir(), "old.svg"), filepath.Join(t.TempDir(), "new.svg")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{old, fresh} {
		if code, _, _ := runToEnd(t, environ(t), "demo", "--backend", "redis://127.0.0.1:1", "--svg", file); code != exitService {
			t.Errorf("code %d, want %d", code, exitService)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the old picture is %q, %v", text, err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("Stat = %v, want no file", err)
	}
}
