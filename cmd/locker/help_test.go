package main

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"help", "run"}, {"help", "completion", "bash"}, {"--help"}, {"completion"}} {
		if code, stdout, stderr := runToEnd(t, environ(t), args...); code != 0 || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%q: code %d, stderr %q, stdout %q, want help", args, code, stderr, stdout)
		}
	}
	if code, help, _ := runToEnd(t, environ(t), "help", "run"); code != 0 || !strings.Contains(help, "LOCKER_TOKEN") {
		t.Errorf("help run: code %d, %q", code, help)
	}
}

// Each line of each command's help has at most helpWidth columns.
func TestHelpFitsTheTerminal(t *testing.T) {
	commands := [][]string{nil}
	var add func(cmd *cobra.Command, path []string)
	add = func(cmd *cobra.Command, path []string) {
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				name := append(slices.Clone(path), sub.Name())
				commands = append(commands, name)
				add(sub, name)
			}
		}
	}
	add(newRoot(), nil)
	if len(commands) < 18 {
		t.Fatalf("%d commands: %q, want all", len(commands), commands)
	}
	for _, name := range commands {
		code, help, stderr := runToEnd(t, environ(t), append([]string{"help"}, name...)...)
		if name == nil {
			code, help, stderr = runToEnd(t, environ(t), "--help")
		}
		if code != 0 || !strings.Contains(help, "Flags:") || stderr != "" {
			t.Errorf("help of %q: code %d, stderr %q, %q", name, code, stderr, help)
		}
		for i, line := range strings.Split(help, "\n") {
			if n := utf8.RuneCountInString(line); n > helpWidth {
				t.Errorf("%q: line %d of the help has %d columns: %q", name, i+1, n, line)
			}
		}
	}
}

func TestHelpAndDocumentsListTheExitCodes(t *testing.T) {
	code, help, stderr := runToEnd(t, environ(t), "run", "--help")
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q, want 0 and nothing", code, stderr)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(exitTable) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		for _, in := range []struct{ name, text, row string }{
			{"help", help, "  " + code + "  " + meaning + "\n"},
			{"main.go", string(source), "//\t" + code + "  " + meaning + "\n"},
			{"docs/command.md", string(docs), "| " + code + " | " + meaning + " |\n"},
		} {
			if !strings.Contains(in.text, in.row) {
				t.Errorf("%s lacks %q", in.name, in.row)
			}
		}
	}
}

// A job of cron that has no LOCKER_URL would run on each machine, and nobody would see why.
func TestCrontabsNameTheService(t *testing.T) {
	docs, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for in, text := range map[string]string{"run --help": runExample, "docs/command.md": string(docs)} {
		jobs, named := 0, false
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "LOCKER_URL="):
				named = true
			case strings.HasPrefix(line, "@hourly ") || strings.HasPrefix(line, "*/5 "):
				jobs++
				if !named || !strings.Contains(line, " --require scope-network ") {
					t.Errorf("%s: before %q LOCKER_URL is set: %v, want that, and --require scope-network", in, line, named)
				}
			}
		}
		if jobs != 2 {
			t.Errorf("%s has %d jobs of cron, want 2", in, jobs)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		code, stdout, stderr := runToEnd(t, environ(t), arg)
		if code != 0 || !strings.HasPrefix(stdout, "locker ") || strings.Count(stdout, "\n") != 1 || stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want one line", arg, code, stdout, stderr)
		}
	}
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abc"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	if got, want := version(info), "locker v1.2.3 0123abc with changes, "; !strings.HasPrefix(got, want) {
		t.Errorf("version = %q, want %q…", got, want)
	}
	if got, want := version(nil), "locker (unknown), "; !strings.HasPrefix(got, want) {
		t.Errorf("version without build information = %q, want %q…", got, want)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, stderr := runToEnd(t, environ(t), "completion", shell); code != 0 || !strings.Contains(stdout, "locker") || stderr != "" {
			t.Errorf("completion %s: code %d, %d bytes, stderr %q", shell, code, len(stdout), stderr)
		}
	}
	const files, noFiles = ":0\n", ":4\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run", ""}, noFiles},
		{[]string{"run", "name", "--", ""}, files},
		{[]string{"run", "--require", ""}, strings.Join(requirementNames(), "\n") + "\n" + noFiles},
		{[]string{"run", "--backend", ""}, noFiles},
		{[]string{"ls", ""}, noFiles},
		{[]string{"ls", "--sort", ""}, "name\nheld\nwaiting\n" + noFiles},
		{[]string{"show", "--format", ""}, "text\njson\n" + noFiles},
		{[]string{"matrix", "--format", ""}, "text\nmarkdown\njson\n" + noFiles},
	} {
		_, stdout, _ := runToEnd(t, environ(t), append([]string{"__complete"}, test.args...)...)
		if stdout != test.want {
			t.Errorf("completion of %q = %q, want %q", test.args, stdout, test.want)
		}
	}
}
