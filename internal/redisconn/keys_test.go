package redisconn_test

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn"
)

// What is in the keys of two backends has golden values there, too.
func TestKey(t *testing.T) {
	for name, want := range map[string]string{"a": "p:{a}", "{a}b": "p:{%7Ba%7Db}", "%7D": "p:{%257D}", "a:token": "p:{a:token}"} {
		if got := redisconn.Key("p:", name); got != want {
			t.Errorf("Key(%q) = %q, want %q", name, got, want)
		}
		if got, slot, ok := redisconn.NameOf("p:", want); got != name || slot != 0 || !ok {
			t.Errorf("NameOf(%q) = %q, %v, want %q", want, got, ok, name)
		}
	}
	for slot, want := range map[int]string{1: "p:{a%7B}:slot:1", 1000: "p:{a%7B}:slot:1000", locker.LineSlot: "p:{a%7B}:slot:line"} {
		if got := redisconn.SlotKey("p:", "a{", slot); got != want {
			t.Errorf("SlotKey(%d) = %q, want %q", slot, got, want)
		}
		if name, got, ok := redisconn.NameOf("p:", want); name != "a{" || got != slot || !ok {
			t.Errorf("NameOf(%q) = %q, %d, %v, want slot %d", want, name, got, ok, slot)
		}
	}
	if got, want := redisconn.SlotKey("p:", "a", 0), redisconn.Key("p:", "a"); got != want {
		t.Errorf("SlotKey(0) = %q, want the lock's, %q", got, want)
	}
	for _, foreign := range []string{"p:{a}:slot:", "p:{a}:slot:0", "p:{a}:slot:01", "p:{a}:slot:3:token", "p:{a}:slot:x", "p:{a}slot:3", "", "p:", "a", "p:a", "p:{a", "p:a}", "q:{a}", "p:{a}:token", "p:{a%7b}", "p:{a%}", "p:{a}}"} {
		if got, _, ok := redisconn.NameOf("p:", foreign); ok {
			t.Errorf("NameOf(%q) = %q, want none: no name has that key", foreign, got)
		}
	}
}

func TestPattern(t *testing.T) {
	for start, want := range map[string]string{"": `p\?:{*`, `a*{[\]`: `p\?:{a\*%7B\[\\\]*`} {
		if got := redisconn.Pattern("p?:", start); got != want {
			t.Errorf("Pattern(%q) = %q, want %q", start, got, want)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, prefix := range []string{"", "locker:", "a/b", "a b/", "é ", "é:", "%7B", "*"} {
		if err := redisconn.CheckPrefix(prefix); err != nil {
			t.Errorf("prefix %q: %v, want nil", prefix, err)
		}
	}
	for _, prefix := range []string{"{", "a}", "{x}", "a\n", "\x00", "\xff"} {
		if err := redisconn.CheckPrefix(prefix); !errors.Is(err, locker.ErrOption) {
			t.Errorf("prefix %q: %v, want ErrOption", prefix, err)
		}
	}
}
