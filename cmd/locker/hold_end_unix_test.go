//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"strings"
	"testing"
)

// An input that ends at about the moment of the grant: there is a line that says so, or the code is
// 118 and there is none.
func TestHoldWhoseInputEndsAtOnce(t *testing.T) {
	env := fileEnv(t)
	for range 20 {
		code, stdout, stderr := runToEnd(t, env, "hold", "x")
		announced := strings.Contains(stdout, `"granted"`)
		if announced && (code != 0 || !strings.Contains(stdout, `"released"`)) || !announced && (code != exitHeld || stdout != "") {
			t.Errorf("code %d, output %q, error output %q", code, stdout, stderr)
		}
	}
}
