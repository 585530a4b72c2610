package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// The page counts as ls does.
func TestPageCountsAsLs(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node is installed")
	}
	words, err := os.ReadFile("internal/ui/page/words.js")
	if err != nil {
		t.Fatal(err)
	}
	party := &locker.Party{Token: 7}
	for what, list := range map[string][]locker.Status{
		"nothing":                     nil,
		"locks":                       {{Name: "a", Holder: party, Waiting: 2}, {Name: "b", Holder: party, Waiting: -1}},
		"nobody knows who waits":      {{Name: "a", Holder: party, Waiting: -1}},
		"three permits, and two wait": {permitOf(1, party), permitOf(2, party), permitOf(3, party), permitOf(locker.LineSlot, party)},
		"a line that isn't listed":    {permitOf(1, party), permitOf(2, nil)},
		"a line that nobody has":      {permitOf(1, party), {Name: "pool", Slot: locker.LineSlot}},
	} {
		rows := []statusRow{}
		for _, s := range list {
			rows = append(rows, rowOf("etcd", s, time.Now()))
		}
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-")
		cmd.Stdin = strings.NewReader(string(words) + "\nconsole.log(count(" + string(text) + "));\n")
		got, err := cmd.CombinedOutput()
		if want := tallyOf(rows).String() + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
}

// permitOf is permit with one that waits.
func permitOf(slot int, holder *locker.Party) locker.Status {
	s := permit(slot, holder)
	s.Waiting = 1
	return s
}
