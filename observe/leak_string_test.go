package observe_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/observe"
)

func TestLeakIsOneLine(t *testing.T) {
	held := locker.LeaseInfo{Name: "a b", State: "held", Token: 7}
	permit := held
	permit.Slot = 2
	line := locker.LeaseInfo{Name: "c", Slot: locker.LineSlot, State: "waiting"}
	for want, leak := range map[string]observe.Leak{
		`"a b" is held for 1.5s, token 7, acquired at main.go:23 (main.main)`: {LeaseInfo: held, For: 1500 * time.Millisecond, Where: []runtime.Frame{{Function: "main.main", File: "/src/main.go", Line: 23}}},
		`slot 2 of "a b" is held for 1s, token 7`:                             {LeaseInfo: permit, For: time.Second},
		`a permit of "c" is waiting for 1m0s`:                                 {LeaseInfo: line, For: time.Minute},
		`"c" is waiting for 1m0s`:                                             {LeaseInfo: locker.LeaseInfo{Name: "c", State: "waiting"}, For: time.Minute},
	} {
		if got := leak.String(); got != want {
			t.Errorf("String = %s, want %s", got, want)
		}
	}
}
