package redlockbackend_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

var errDown = errors.New("down")

// replies makes answers of words: r raised, g granted, m granted with a counter that the others
// can't be raised to, A and B held by those, w waits, d differs, ! an error, . none yet.
func replies(words string) (list []redlockbackend.Reply) {
	texts := map[rune]redlockbackend.Reply{
		'r': {Text: "raised"}, 'g': {Text: "granted 170 200"}, 'm': {Text: "granted 5000 200"},
		'A': {Text: "held 5 0 A"}, 'B': {Text: "held 5 0 B"}, 'w': {Text: "waits 5"}, 'd': {Text: "differs 5"}, 'x': {Text: "gone"}, '!': {Err: errDown}, '.': {},
	}
	for _, w := range words {
		list = append(list, texts[w])
	}
	return list
}

func TestMajority(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 9: 5} {
		if got := redlockbackend.Majority(n); got != want {
			t.Errorf("the majority of %d is %d, want %d", n, got, want)
		}
	}
}

func TestFirstPhase(t *testing.T) {
	for answers, want := range map[string]string{
		"rrr": "won", "rr.": "won", "rr!": "won", "rrA": "won", "rrw": "won",
		"r..": "undecided", "...": "undecided", "rA.": "undecided", "r!.": "undecided",
		"rrr..": "won", "rr...": "undecided", "rr!!.": "undecided", "rrAA.": "undecided",

		// The lock is ours, but not all have agreed to the token.
		"rg.": "short", "gg.": "short", "rrg..": "short", "rggA!": "short", "ggg": "short",

		// As long as no majority of those could agree to another, it waits for those that are still
		// to answer.
		"rrm..": "undecided", "rrmg.": "short", "rrmr.": "won", "rrm!.": "undecided", "rm.": "undecided", "rmg": "short",
		"rrm!!": "failed", "rm!": "failed", "rmA": "failed",

		// Somebody has it, or may have it.
		"AA.": "held", "rAA": "held", ".AA": "held", "AAA..": "held", "rrAAA": "held", "AAA!!": "held", "AAAww": "held",
		"rAA!!": "held", "rrAA!": "held", "AA!..": "undecided", "AA...": "undecided", "A!w..": "undecided", "rA!A!": "held",

		// Nobody can have it, so it is worth another try at once.
		"rAB": "split", "AB.": "undecided", "rrAAB": "split", "rABAB": "split", "rrA!B": "split", "gAABB": "split",

		// A majority must have answered, with its memory, to say that somebody has it.
		"!!.": "failed", "A!!": "failed", "r!!": "failed", "ww.": "failed", "Aww": "failed", "dd.": "failed", "rrw!!": "failed", "AA!!!": "failed",
		"!!!..": "failed", "xx.": "failed",

		// As long as a majority may still answer, though some have forgotten who has it, nobody knows which it is.
		"w!.": "undecided", "!ww..": "undecided", "!!w..": "undecided", "!ww.!": "undecided", "w!!": "failed", "!ww!!": "failed",
		"!www.": "failed", "!!!w.": "failed", "d!.": "failed",
	} {
		if got := redlockbackend.AfterAcquire(replies(answers)); got != want {
			t.Errorf("%s is %s, want %s", answers, got, want)
		}
	}
}

func TestSecondPhase(t *testing.T) {
	for answers, want := range map[string]string{
		"rr.": "won", "rrr!!": "won", "rr!..": "undecided", "r..": "undecided", "rg.": "undecided", "r!.": "undecided",
		"gg.": "split", "gx.": "split", "rggx!": "split", "rgg": "split", "rx!": "split", "!!.": "failed", "r!!": "failed", "rrg!!": "split", "rr!!!": "failed",
		"ww.": "failed", "w!.": "undecided", "w!!": "failed",
	} {
		if got := redlockbackend.AfterRaise(replies(answers)); got != want {
			t.Errorf("%s is %s, want %s", answers, got, want)
		}
	}
}

// A verdict never changes when the answers that are still to come arrive, except that the service
// is found to have failed or the lock to be split instead of held; and in the end there is one.
func TestDecisionsAreFinal(t *testing.T) {
	const words = "rgmABwd!"
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		n := []int{3, 5, 7}[random.IntN(3)]
		var b strings.Builder
		for range n {
			b.WriteByte(words[random.IntN(len(words))])
		}
		all := b.String()
		final := redlockbackend.AfterAcquire(replies(all))
		if final == "undecided" {
			t.Fatalf("%s is undecided", all)
		}
		early := []byte(all)
		for _, i := range random.Perm(n) {
			early[i] = '.'
			if got := redlockbackend.AfterAcquire(replies(string(early))); got != "undecided" && (got == "won") && final != "won" {
				t.Fatalf("%s is %s, and with all answers %s is %s", early, got, all, final)
			}
		}
	}
}

func TestSecondPhaseToken(t *testing.T) {
	granted := func(text string) redlockbackend.Reply { return redlockbackend.Reply{Text: "granted " + text} }
	const minute = 60_000_000
	raised, away := redlockbackend.Reply{Text: "raised"}, redlockbackend.Reply{Err: errDown}
	for _, c := range []struct {
		what    string
		want    locker.Token
		replies []redlockbackend.Reply
	}{
		{"above all counters", 210, []redlockbackend.Reply{granted("200 9999"), granted("209 9999"), granted("205 9999")}},
		{"above what it has raised", 211, []redlockbackend.Reply{raised, granted("210 9999"), granted("205 9999")}},
		{"its own was the largest", 101, []redlockbackend.Reply{raised, granted("50 9999"), granted("60 9999"), granted("70 9999"), away}},
		{"not up to one that is far ahead", 210, []redlockbackend.Reply{granted("200 999"), granted("209 999"), granted("5000 9999"), away, away}},
		{"two far ahead of three", 31, []redlockbackend.Reply{granted("10 99"), granted("20 99"), granted("30 99"), granted("5000 9999"), granted("6000 9999")}},
		{"not behind the clock", 5 * minute, []redlockbackend.Reply{granted("200 360000000"), granted("209 360000000"), away}},
	} {
		if got := redlockbackend.SecondPhaseToken(c.replies); got != c.want {
			t.Errorf("%s: the second token is %d, want %d", c.what, got, c.want)
		}
	}
}

func TestBase(t *testing.T) {
	const no = -1
	for _, c := range []struct {
		stamps []driver.Instant
		want   driver.Instant
		exists bool
	}{
		{[]driver.Instant{5, 5, 5}, 5, true},
		{[]driver.Instant{5, 5, no}, 5, true},
		{[]driver.Instant{5, no, no}, 0, false},
		{[]driver.Instant{1, 2, 3}, 2, true},
		{[]driver.Instant{1, 9, 9}, 9, true},
		{[]driver.Instant{9, 1, 1, 9, 9}, 9, true},
		{[]driver.Instant{1, 2, 3, 4, 5}, 3, true},
		{[]driver.Instant{no, 2, 3, 4, 5}, 3, true},
		{[]driver.Instant{no, 2, 3, 4, no}, 2, true},
		{[]driver.Instant{no, 2, no, 4, no}, 0, false},
		{[]driver.Instant{0, 0, 0}, 0, true},
	} {
		if base, ok := redlockbackend.Base(c.stamps); base != c.want || ok != c.exists {
			t.Errorf("of stamps %d the base is %d, %v, want %d, %v", c.stamps, base, ok, c.want, c.exists)
		}
	}
}

// Until a TTL after the base, every majority meets a server that still has the lease.
func TestBaseExcludes(t *testing.T) {
	const ttl = 10
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		n := []int{3, 5, 7}[random.IntN(3)]
		stamps := make([]driver.Instant, n)
		for i := range stamps {
			stamps[i] = driver.Instant(random.IntN(12) - 2)
		}
		base, ok := redlockbackend.Base(stamps)
		if !ok {
			continue
		}
		free := 0 // an instant before the end
		for _, s := range stamps {
			if s < 0 || s+ttl <= base+ttl-1 {
				free++
			}
		}
		if free >= redlockbackend.Majority(n) {
			t.Fatalf("of stamps %d the base is %d, and a majority is free before a TTL has passed", stamps, base)
		}
	}
}

func TestMayRecover(t *testing.T) {
	for answers, want := range map[string]bool{"www": true, "Aww": true, "rw!": true, "w!!": false, "A!!": false, "www!!": true, "dww": true, "ddw": false, "rrm!!": false, "rrm!w": false,
		"!www.": true, "!ww..": false, "!w.": false, "!!.": false} {
		if got := redlockbackend.MayRecover(replies(answers)); got != want {
			t.Errorf("%s may recover: %v, want %v", answers, got, want)
		}
	}
}
