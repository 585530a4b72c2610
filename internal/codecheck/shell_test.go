package codecheck

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notCommands are parts of texts in code that have the word "locker" and are no command lines.
var notCommands = []string{
	"locker is closed",  // the text of ErrClosed
	"version of locker", // in the text of an error
	"if locker has ended",
	"kubectl create secret generic locker",
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	// lockerWord is the program as a word of its own, also in "go run …/cmd/locker".
	lockerWord = regexp.MustCompile(`(?:^|[\s;&|(!'"=])(?:[\w./]*/cmd/)?locker(?:@\w+)? +`)
	commandEnd = regexp.MustCompile(`(?:^| )(?:--|\||\|\||&&|;|#|>)(?: |$)|[;)"'#]|…`)
	longFlag   = regexp.MustCompile(`(?:^|[\s\[|(])--([a-z][a-z-]*)`)
	word       = regexp.MustCompile(`^[a-z]+$`)
	helpFlag   = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z-]*)`)
	helpName   = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)
)

// commands are the flags of each command of locker, as its help says.
type commands map[string][]string

// commandsOf builds the program and asks it.
func commandsOf(t *testing.T) commands {
	t.Helper()
	program := filepath.Join(t.TempDir(), "locker.exe") // a name that every system executes
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/locker")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	help := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("locker %v --help: %v", args, err)
		}
		return string(out)
	}
	all := make(commands)
	_, list, _ := strings.Cut(help(), "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\nFlags:\n")
	for _, m := range helpName.FindAllStringSubmatch(list, -1) {
		for _, f := range helpFlag.FindAllStringSubmatch(help(m[1]), -1) {
			all[m[1]] = append(all[m[1]], f[1])
		}
	}
	if len(all) < 8 || !slices.Contains(all["run"], "no-wait") {
		t.Fatalf("the help names %v, want all commands", all)
	}
	all[""] = []string{"help", "version"}
	return all
}

// mistakes looks for command lines of locker in a text, and returns what is wrong with them.
func (c commands) mistakes(text string) (wrong []string) {
	for _, at := range lockerWord.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		if end := commandEnd.FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		name, _, _ := strings.Cut(rest, " ")
		switch {
		case strings.HasPrefix(name, "--"):
			name = ""
		case !word.MatchString(name):
			continue // "locker NAME", "locker 1.2"
		case c[name] == nil:
			wrong = append(wrong, "locker has no command "+name)
			continue
		}
		for _, f := range longFlag.FindAllStringSubmatch(rest, -1) {
			if !slices.Contains(c[name], f[1]) {
				wrong = append(wrong, strings.TrimSpace("locker "+name)+" has no flag --"+f[1])
			}
		}
	}
	return wrong
}

// Commands and flags that the pages name exist.
func TestCommandLines(t *testing.T) {
	known := commandsOf(t)
	t.Run("lines", known.testLines)
	t.Run("flags", known.testFlags)
}

// testLines looks at command lines in blocks without a language or of a shell, in indented lines,
// and in code within a line.
func (c commands) testLines(t *testing.T) {
	count := 0
	look := func(b block, text string) {
		no := slices.ContainsFunc(notCommands, func(part string) bool { return strings.Contains(text, part) })
		if strings.Contains(text, "locker ") && !no {
			count++
			for _, wrong := range c.mistakes(text) {
				t.Errorf("%s:%d: %s, in %q (a text that is no command line: see notCommands)", b.page, b.line, wrong, text)
			}
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.skip != "" || !slices.Contains([]string{"", "sh", "bash", "shell", "console", "yaml", "text"}, b.lang) {
				continue
			}
			for l := range strings.Lines(b.code) {
				if l = strings.TrimSpace(l); strings.HasPrefix(l, "locker:") {
					continue // an error of the program
				}
				look(b, l)
				b.line++
			}
		}
		for _, b := range p.prose {
			if strings.HasPrefix(b.code, "    ") && !strings.Contains(b.code, "`") {
				look(b, strings.TrimSpace(b.code))
			}
			for _, m := range inlineCode.FindAllStringSubmatch(b.code, -1) {
				look(b, m[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("found %d command lines, want the blocks of all pages", count)
	}
}

// testFlags looks at flags that docs/command.md names alone in code, as its tables do: each is a flag
// of some command.
func (c commands) testFlags(t *testing.T) {
	flag := regexp.MustCompile("`--([a-z][a-z-]*)[^`]*`")
	for _, p := range pages(t) {
		if p.name != "docs/command.md" {
			continue
		}
		for _, b := range p.prose {
			for _, m := range flag.FindAllStringSubmatch(b.code, -1) {
				found := false
				for _, flags := range c {
					found = found || slices.Contains(flags, m[1])
				}
				if !found {
					t.Errorf("%s:%d: no command of locker has a flag --%s", b.page, b.line, m[1])
				}
			}
		}
	}
}

func TestMistakesInCommandLines(t *testing.T) {
	known := commands{"": {"help", "version"}, "run": {"no-wait", "wait"}, "ls": {"check"}}
	for text, want := range map[string]string{
		"locker run --no-wait reports -- ./report.sh --fast":   "",
		"*/5 * * * *  locker run --nowait reports -- true":     "locker run has no flag --nowait",
		"locker ls --check; echo $?":                           "",
		"go run ./cmd/locker list":                             "locker has no command list",
		"go run x.org/cmd/locker@latest ls --chek":             "locker ls has no flag --chek",
		"locker --version":                                     "",
		"locker --verion":                                      "locker has no flag --verion",
		"LOCKER_URL=mem:// locker run --wait 1m a && locker l": "locker has no command l",
		"locker run [--no-wait] [--wait|--wat] NAME":           "locker run has no flag --wat",
		"locker HOST/PID/PROGRAM":                              "",
		"the blocker runs":                                     "",
	} {
		if got := strings.Join(known.mistakes(text), ", "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
