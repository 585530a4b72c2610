//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Each program of docs/command.md is one that runs, where its interpreter exists.
func TestHoldFromOtherLanguages(t *testing.T) {
	docs, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`^build with token (\d+)\ncopy with token (\d+)\nreleased\n$`)
	for _, test := range []struct{ interpreter, file, language string }{
		{"python3", "deploy.py", "python"},
		{"node", "deploy.mjs", "js"},
		{"ruby", "deploy.rb", "ruby"},
		{"sh", "deploy.sh", "sh"},
	} {
		t.Run(test.file, func(t *testing.T) {
			path := "testdata/hold/" + test.file
			program, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(docs), "```"+test.language+"\n"+string(program)+"```\n") {
				t.Errorf("docs/command.md doesn't show %s as it is", path)
			}
			if _, err := exec.LookPath(test.interpreter); err != nil {
				t.Skip("there is no ", test.interpreter)
			}
			code, stdout := runWithLocker(t, "exec "+quote(self(t))+` "$@"`, fileEnv(t), test.interpreter, path)
			if m := printed.FindStringSubmatch(stdout); code != 0 || m == nil || m[1] != m[2] {
				t.Errorf("code %d, output %q, want two steps with one token", code, stdout)
			}
			code, stdout = runWithLocker(t, "exit 118", fileEnv(t), test.interpreter, path)
			if code != exitHeld || stdout != "" {
				t.Errorf("code %d, output %q of a program that doesn't get the lock, want code %d and nothing", code, stdout, exitHeld)
			}
			const loses = `echo '{"event":"granted","token":"7"}'; echo '{"event":"lost"}'; exit 119`
			code, stdout = runWithLocker(t, loses, fileEnv(t), test.interpreter, path)
			if code == 0 || stdout != "" {
				t.Errorf("code %d, output %q of a program that loses the lock, want an error before the first step", code, stdout)
			}
		})
	}
}

// runWithLocker runs a program that finds a script as the command locker.
func runWithLocker(t *testing.T, script string, env []string, program ...string) (code int, stdout string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(bin+"/locker", []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	cmd.Env = append(env, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
