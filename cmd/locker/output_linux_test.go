package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What can't be written is a failure of its own, whichever command it is.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{
		{"version"}, {"--version"}, {"matrix"}, {"help"}, {"help", "run"}, {"run", "--help"}, {"--help"},
		{"completion"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
	} {
		cmd := exec.CommandContext(t.Context(), self(t), args...)
		var stderr bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = environ(t), full, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != exitOutput || !strings.HasPrefix(stderr.String(), "locker: ") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: code %d, stderr %q, want code %d and one line", args, code, stderr.String(), exitOutput)
		}
	}
}
