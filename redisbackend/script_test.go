package redisbackend_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker/redisbackend"
)

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	call    = regexp.MustCompile(`redis\.(p?call)\('([A-Z]+)'(?:, ([^,)]+))?`)
	tried   = regexp.MustCompile(`(?m)^\s*(?:if ARGV\[6\] then )?try\('([A-Z]+)'`)
	indexed = regexp.MustCompile(`\b(KEYS|ARGV)\[([^\]]*)\]`)
)

// commands are those that the scripts run, without the probe.
func commands(t *testing.T) []string {
	t.Helper()
	var list []string
	for name, text := range redisbackend.Scripts() {
		for _, c := range call.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
			if name != "probe" {
				list = append(list, c[2])
			}
		}
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) < 10 {
		t.Fatalf("the scripts run %v; is this test still able to read them?", list)
	}
	return list
}

// What is missing among the permissions of a user must be found when a Locker is opened.
func TestProbeTriesAllCommands(t *testing.T) {
	var probed []string
	for _, c := range tried.FindAllStringSubmatch(redisbackend.Scripts()["probe"], -1) {
		probed = append(probed, c[1])
	}
	slices.Sort(probed)
	if probed = slices.Compact(probed); !slices.Equal(probed, commands(t)) {
		t.Errorf("the probe tries %v, and the scripts run %v", probed, commands(t))
	}
}

func TestDocsListAllCommands(t *testing.T) {
	text, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(commands(t), "EVAL", "EVALSHA", "SUBSCRIBE", "PING", "INFO") {
		permission := " +" + strings.ToLower(c)
		if c == "SELECT" { // for a caller's client alone
			permission = "`+select`"
		}
		if !strings.Contains(string(text), permission) {
			t.Errorf("docs/redis.md doesn't name the permission%s", permission)
		}
	}
}

// A Cluster moves keys by what scripts declare, some services refuse anything else, and permissions
// go by it.
func TestScriptsUseDeclaredKeysOnly(t *testing.T) {
	for name, text := range redisbackend.Scripts() {
		text = comment.ReplaceAllString(text, "")
		for _, c := range call.FindAllStringSubmatch(text, -1) {
			command, first := c[2], c[3]
			switch {
			case command == "TIME" || command == "PUBSUB" || command == "SELECT":
			case command == "PUBLISH":
				if c[1] != "pcall" {
					t.Errorf("%s: a message that can't be sent fails the script", name)
				}
			case !strings.HasPrefix(first, "KEYS[") && first != "key": // a function of a key, whose calls are seen below
				t.Errorf("%s: %s uses %s, which is no declared key", name, command, first)
			}
		}
		for _, c := range regexp.MustCompile(`\bkeep(?:_token)?\(([^,]+),`).FindAllStringSubmatch(text, -1) {
			if c[1] != "key" && !strings.HasPrefix(c[1], "KEYS[") {
				t.Errorf("%s: keep uses %s, which is no declared key", name, c[1])
			}
		}
		for _, c := range indexed.FindAllStringSubmatch(text, -1) {
			if database := c[0] == "ARGV[#ARGV]" || name == "probe" && c[0] == "ARGV[6]"; database {
				continue
			}
			if n, err := strconv.Atoi(c[2]); err != nil || n < 1 || n > 5 {
				t.Errorf("%s: %s, and there are five", name, c[0])
			}
		}
	}
}

func TestScriptsAreWhole(t *testing.T) {
	global := regexp.MustCompile(`(?m)^(function|[a-z_]+ =)`)
	for name, text := range redisbackend.Scripts() {
		if strings.Contains(text, "-- include") {
			t.Errorf("%s has an include that was not replaced", name)
		}
		if c := global.FindString(text); c != "" {
			t.Errorf("%s: %q makes a global variable, which Redis refuses", name, c)
		}
	}
}

func TestParseReply(t *testing.T) {
	type answer = []any
	for _, c := range []struct {
		values answer
		want   [4]int64 // standing, token, milliseconds left, rank
		heard  bool
		bad    bool
	}{
		{answer{int64(0)}, [4]int64{}, false, false},
		{answer{int64(1), int64(20), int64(0)}, [4]int64{1, 0, 20, 0}, false, false},
		{answer{int64(1), int64(20), int64(1)}, [4]int64{1, 0, 20, 0}, true, false},
		{answer{int64(2), int64(-1), int64(2), int64(7)}, [4]int64{2, 0, -1, 7}, true, false},
		{answer{int64(3), "9223372036854775807"}, [4]int64{3, 9223372036854775807, 0, 0}, false, false},
		{answer{int64(3), "9223372036854775808"}, [4]int64{}, false, true},
		{answer{int64(3), "1.795e+15"}, [4]int64{}, false, true},
		{answer{int64(3), nil}, [4]int64{}, false, true},
		{answer{int64(3)}, [4]int64{}, false, true},
		{answer{int64(0), int64(0)}, [4]int64{}, false, true},
		{answer{int64(2), int64(0), int64(0), int64(0), int64(0)}, [4]int64{}, false, true},
		{answer{int64(4)}, [4]int64{}, false, true},
		{answer{int64(-1)}, [4]int64{}, false, true},
		{answer{}, [4]int64{}, false, true},
		{nil, [4]int64{}, false, true},
	} {
		got, heard, err := redisbackend.ParseReply(c.values)
		if (err != nil) != c.bad || !c.bad && (got != c.want || heard != c.heard) {
			t.Errorf("the answer %v is %v, heard %v, %v, want %v, %v", c.values, got, heard, err, c.want, c.heard)
		}
	}
}

func TestParseMessage(t *testing.T) {
	for _, c := range []struct {
		text string
		want redisbackend.Message // the zero value: an invalid one
	}{
		{"0f 42 7 locker:{a b}", redisbackend.Message{Owner: "0f", Grant: true, Token: 42, Stamp: 7, Key: "locker:{a b}"}},
		{"0f 250", redisbackend.Message{Owner: "0f", Recheck: 250 * time.Millisecond}},
		{"", redisbackend.Message{}}, // the probe's
		{"0f x", redisbackend.Message{}},
		{"0f 42 7", redisbackend.Message{}},
		{"0f x 7 k", redisbackend.Message{}},
		{"0f 42 x k", redisbackend.Message{}},
	} {
		got, ok := redisbackend.ParseMessage(c.text)
		if want := c.want != (redisbackend.Message{}); ok != want || ok && got != c.want {
			t.Errorf("%q was read as %+v, %v, want %+v, %v", c.text, got, ok, c.want, want)
		}
	}
}
