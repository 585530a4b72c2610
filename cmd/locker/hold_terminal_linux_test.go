package main

import (
	"syscall"
	"testing"
)

// By hand, at a terminal, both the end of the input and Ctrl-C release the lock.
func TestHoldOnATerminal(t *testing.T) {
	for _, test := range []struct {
		key    string
		signal syscall.Signal // that ends the process; 0: none does
	}{{"\x04", 0}, {"\x03", syscall.SIGINT}} {
		env := fileEnv(t)
		c, cmd := startOnTerminal(t, env, "hold", "x")
		c.seeIn(t, `{"event":"granted"`)
		c.typeIn(t, "check\n")
		c.see(t, `{"event":"held"}`)
		c.typeIn(t, test.key)
		c.see(t, `{"event":"released"}`)
		_ = cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); test.signal == 0 && !cmd.ProcessState.Success() || test.signal != 0 && status.Signal() != test.signal {
			t.Errorf("%q: locker ended with %v", test.key, cmd.ProcessState)
		}
		wantFree(t, env)
	}
}
