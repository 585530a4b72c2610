package redisbackend_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// keyCommand is a command of a script, or a call of a function of it that runs one, with its first
// argument.
var keyCommand = regexp.MustCompile(`(?:redis\.p?call|\btry)\('([A-Z]+)'(?:, ([^,)]*))?|\b(keep|keep_token)\(([^,)]*)`)

// Scripts use only keys that they declare: each command has one of KEYS. docs/faq.md says so, because
// some servers require it.
func TestScriptsDeclareTheirKeys(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(l, "--")
			for _, m := range keyCommand.FindAllStringSubmatch(code, -1) {
				inFunction := strings.Contains(code, "'PTTL', key)") || strings.Contains(code, "'PEXPIRE', key,") || strings.Contains(code, "function ")
				switch command, key := m[1], m[2]+m[4]; {
				case command == "TIME", command == "PUBSUB", command == "PUBLISH", command == "SELECT", command == "SCAN":
				case strings.HasPrefix(key, "KEYS["):
					commands++
				case key == "key" && inFunction: // of keep or keep_token, which get one of KEYS
				default:
					t.Errorf("%s: %s has the key %q, want one of KEYS", file, command+m[3], key)
				}
			}
		}
	}
	if commands < 60 {
		t.Errorf("%d commands with keys, want all", commands)
	}
}
