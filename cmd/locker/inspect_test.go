package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func sampleStatuses(now time.Time) []statusRow {
	since, asked := now.Add(-4*time.Second), now.Add(-192*time.Second)
	var rows []statusRow
	for _, s := range []locker.Status{
		{Name: "a", Key: "k:a", Holder: &locker.Party{Owner: "0a", Token: 1795221171926053, Since: since, ExpiresIn: 26 * time.Second,
			Holder: "deploy by \u202ealice", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
		{Name: "b\x1b[2J", Key: "k:b", Holder: &locker.Party{Token: 7, Asked: asked, Session: "4711"}, Waiting: 3,
			Waiters: []locker.Party{{Session: "4712", Asked: since}, {Owner: "0c"}}},
		{Key: "-9", Waiting: 1},
		{Name: " c", Key: "k:c", Holder: &locker.Party{}, Waiting: -1, Partial: []locker.Party{{Owner: "0d", Token: 8}}},
	} {
		rows = append(rows, rowOf("etcd", s, now))
	}
	return rows
}

func TestListInWords(t *testing.T) {
	const want = `NAME          HELD     ENDS IN  WAITING  TOKEN             HOLDER
a             4s       26s      0        1795221171926053  "deploy by \u202ealice"
"b\x1b[2J"    ≤ 3m12s  -        3        7                 session 4711
(key -9)      -        -        1        -                 -
" c"          -        -        ?        -                 ?
4 locks, 4 waiting (38ms)
`
	rows := sampleStatuses(time.Now())
	if got := rowsText(rows, 38*time.Millisecond); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("the list is\n%s\nwant\n%s", got, want)
	}
	if got := rowsText(nil, 0); got != "0 locks, 0 waiting (0s)\n" {
		t.Errorf("the list of nothing is %q", got)
	}
	unknown := []statusRow{rowOf("etcd", locker.Status{Name: "a", Waiting: -1}, time.Now())} // as on files
	if got := rowsText(unknown, 0); !strings.HasSuffix(got, "1 lock (0s)\n") {
		t.Errorf("where nobody knows who waits the list is %q", got)
	}
}

// Of five runs with --permits 3 two wait, as show --permits says: one has the line, and waits on each slot.
func TestWaitersForPermitsAreCountedOnce(t *testing.T) {
	var rows []statusRow
	var all []locker.Status
	for _, slot := range []int{locker.LineSlot, 1, 2, 3} {
		s := locker.Status{Name: "pool", Slot: slot, Key: strconv.Itoa(slot), Holder: &locker.Party{Token: 7}, Waiting: 1}
		all, rows = append(all, s), append(rows, rowOf("etcd", s, time.Now()))
	}
	if got := rowsText(rows, 0); !strings.HasSuffix(got, "\n3 locks, 2 waiting (0s)\n") {
		t.Errorf("ls says\n%s", got)
	}
	text, _, _, err := showPermits(t.Context(), listerOf(t, nil, all...), "pool", locker.Look{}, false)
	if err != nil || !strings.HasPrefix(text, "pool on mem: 3 permits held, 2 waiting\n") {
		t.Errorf("show --permits says %v,\n%s", err, text)
	}
}

func TestSlotsInWords(t *testing.T) {
	for slot, want := range map[int]string{0: "a", 3: "a, permit 3", locker.LineSlot: "a, line for permits"} {
		row := rowOf("etcd", locker.Status{Name: "a", Slot: slot, Key: "k", Waiting: 1}, time.Now())
		if got := row.title(); got != want {
			t.Errorf("slot %d is called %q, want %q", slot, got, want)
		}
		if top := topRow(row); top.Name != "a" || top.Slot != slot || top.Title != want {
			t.Errorf("slot %d is row %+v of top", slot, top)
		}
	}
	if got := rowOf("etcd", locker.Status{Slot: 2, Key: "k"}, time.Now()).title(); got != "(key k), permit 2" {
		t.Errorf("a permit without a name is called %q", got)
	}
}

// A lock in a file ends with a process, and not with a session of a server.
func TestWhatALockEndsWith(t *testing.T) {
	for _, test := range []struct{ backend, session, want string }{
		{"file", "4711", "process 4711"},
		{"file", "0", "process of another namespace"},
		{"etcd", "694d9fb1c5a2d707", "session 694d9fb1c5a2d707"},
	} {
		row := rowOf(test.backend, locker.Status{Name: "a", Holder: &locker.Party{Session: test.session}, Waiting: -1}, time.Now())
		if _, who := row.holderText(); who != test.want || !strings.Contains(row.text(test.backend), "held by  "+test.want+"\n") {
			t.Errorf("on %s a holder with %s is %q in ls, and show prints\n%s", test.backend, test.session, who, row.text(test.backend))
		}
	}
}

func TestShowInWords(t *testing.T) {
	now := time.Now()
	rows := sampleStatuses(now)
	for i, want := range [][]string{
		{"a on etcd, key k:a\n", `held by  "deploy by \u202ealice", token 1795221171926053, since `, " (4s), ends in 26s unless renewed, owner 0a, trace 4bf92f3577b34da6a3ce929d0e0e4736\n", "waiting  0\n"},
		{`"b\x1b[2J" on etcd`, "asked at ", "(3m12s ago), session 4711\n", "waiting  3\n", "1.  asked at ", "2.  owner 0c\n", "and 1 more\n"},
		{"(key -9) on etcd", "  free\n", "waiting  1\n"},
		{`" c" on etcd`, "held by  somebody of whom nothing is known\n", "no majority  token 8, owner 0d\n", "waiting  ?\n"},
	} {
		got := rows[i].text("etcd")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("lock %d is shown as\n%s\nwant %q in it", i, got, part)
			}
		}
	}
}

// One lock that somebody else has made must not hide those that have been held for long.
func TestHeldLonger(t *testing.T) {
	now := time.Now()
	row := func(name string, holder *locker.Party) statusRow {
		return rowOf("etcd", locker.Status{Name: name, Holder: holder}, now)
	}
	old, short := row("old", &locker.Party{Since: now.Add(-2 * time.Hour)}), row("short", &locker.Party{Since: now.Add(-time.Second)})
	asked, free := row("asked", &locker.Party{Asked: now.Add(-2 * time.Hour)}), row("free", nil)
	foreign, timeless := row("foreign", &locker.Party{ExpiresIn: time.Hour}), row("timeless", &locker.Party{Token: 7})
	for _, test := range []struct {
		rows    []statusRow
		longer  string
		unknown string
		never   bool
	}{
		{[]statusRow{old, short, asked, free}, "old asked", "", false},
		{[]statusRow{foreign, old, timeless}, "old", "foreign, timeless", false},
		{[]statusRow{free, foreign}, "", "foreign", false},
		{[]statusRow{timeless, foreign}, "", "timeless, foreign", true},
		{[]statusRow{short, foreign, foreign, foreign, foreign, foreign, foreign, foreign}, "", "foreign, foreign, foreign, foreign, foreign and 2 more", false},
	} {
		var held heldRows
		var longer []string
		for _, row := range test.rows {
			if held.longer(row, time.Hour) {
				longer = append(longer, row.Name)
			}
		}
		if got := strings.Join(longer, " "); got != test.longer || held.names() != test.unknown || held.never() != test.never {
			t.Errorf("%q, unknown %q, never %v, want %q, %q, %v", got, held.names(), held.never(), test.longer, test.unknown, test.never)
		}
	}
}

func TestListInOrder(t *testing.T) {
	for sort, want := range map[string]string{"name": "-9 k:c k:a k:b", "held": "k:b k:a -9 k:c", "waiting": "k:b -9 k:a k:c"} {
		rows := sampleStatuses(time.Now())
		(&lsOptions{sort: sort}).order(rows)
		var keys []string
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("--sort %s: %s, want %s", sort, got, want)
		}
	}
}

// What isn't known is left out, and a token is a text.
func TestListForPrograms(t *testing.T) {
	rows := sampleStatuses(time.Now())
	var list []map[string]any
	if err := json.Unmarshal([]byte(rowsJSON(rows)), &list); err != nil {
		t.Fatal(err)
	}
	holder := list[0]["holder"].(map[string]any)
	if holder["token"] != "1795221171926053" || holder["expires_ms"] != 26000.0 || holder["label"] != "deploy by \u202ealice" || holder["asked"] != nil || holder["session"] != nil {
		t.Errorf("the holder is %v", holder)
	}
	if _, held := list[2]["holder"]; held || list[2]["name"] != nil || list[3]["waiting"] != -1.0 {
		t.Errorf("the free lock is %v, and the one whose waiters aren't known %v", list[2], list[3])
	}
	if got := rowsNDJSON(rows); strings.Count(got, "\n") != len(rows) {
		t.Errorf("%d locks are %q", len(rows), got)
	}
	if got := rowsJSON(nil); got != "[]\n" {
		t.Errorf("no locks are %q", got)
	}
}

// A service may have any time, and JSON has those of four digits.
func TestTimesThatJSONCannotHave(t *testing.T) {
	for _, at := range []time.Time{time.UnixMicro(-9e18), time.UnixMicro(1e18), time.UnixMicro(math.MaxInt64),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))} {
		row := rowOf("etcd", locker.Status{Name: "bad", Holder: &locker.Party{Since: at, Asked: at}, Waiters: []locker.Party{{Asked: at}}}, time.Now())
		for what, text := range map[string]string{"json": row.json(), "a list in json": rowsJSON([]statusRow{row}), "ndjson": rowsNDJSON([]statusRow{row})} {
			if !strings.Contains(text, `"bad"`) || strings.Contains(text, "since") || strings.Contains(text, "asked") {
				t.Errorf("%s with the time %v is %q, want it without times", what, at, text)
			}
		}
		if got := row.heldText(); got != "-" {
			t.Errorf("since %v the lock is held for %s, want -", at, got)
		}
	}
}

// A terminal of 8 bits acts on a byte that no UTF-8 has, and a table has no width for it.
func TestTextThatIsNoUTF8(t *testing.T) {
	for text, want := range map[string]string{"a\x9b2J": `"a\x9b2J"`, "\xff": `"\xff"`, "Ä/ö": "Ä/ö", "\u009b": `"\u009b"`, "\ufffd": "\ufffd"} {
		if got := shown(text); got != want {
			t.Errorf("shown(%+q) = %+q, want %+q", text, got, want)
		}
	}
	for text, want := range map[string]string{"a\x9b2J": `a\x9b2J`, "a\xff\tb": `a\xff b`, "Ä\x1b": `Ä\x1b`, "\ufffd": "\ufffd"} {
		if got := printable(text); got != want {
			t.Errorf("printable(%+q) = %+q, want %+q", text, got, want)
		}
	}
}

func TestLsAndShow(t *testing.T) {
	dir := locksDir(t)
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := environ(t, "LOCKER_URL=file://"+dir)
	if l.Guarantees().Inspection == locker.InspectionNone {
		if code, _, stderr := runToEnd(t, env, "ls"); code != exitUsage || !strings.Contains(stderr, "inspection must be holder") {
			t.Errorf("ls: code %d, stderr %q, want %d and the guarantee", code, stderr, exitUsage)
		}
		t.Skip("nothing shows here who has locked a file")
	}
	lease, err := l.Acquire(t.Context(), "deploy/a", locker.WithHolder("alice's deploy"))
	if err != nil {
		t.Fatal(err)
	}
	token := strconv.FormatInt(int64(lease.Token()), 10)
	permit, err := locker.AcquirePermit(t.Context(), l, "pool", 1, locker.WithHolder("worker"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = permit.Release(t.Context()) }()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls"}, 0, token},
		{[]string{"ls", "deploy/"}, 0, "1 lock ("},
		{[]string{"ls", "--holder", "alice"}, 0, "alice's deploy"},
		{[]string{"ls", "--holder", "bob"}, 0, "0 locks, 0 waiting"},
		{[]string{"ls", "other/"}, 0, "0 locks, 0 waiting"},
		{[]string{"ls", "--check"}, exitChecked, "deploy/a"},
		{[]string{"ls", "pool"}, 0, "pool, permit 1"},
		{[]string{"ls", "--format", "ndjson", "pool"}, 0, `"slot":1`},
		{[]string{"show", "--check", "pool"}, exitChecked, "  free\n"},
		{[]string{"show", "--permits", "--check", "pool"}, 0, "pool on file: 1 permit held, 0 waiting\npool, permit 1 on file, key "},
		{[]string{"show", "--permits", "--format", "json", "pool"}, 0, `"slot": 1`},
		{[]string{"show", "--permits", "--check", "deploy/a"}, exitChecked, "deploy/a on file: 0 permits held, 0 waiting\n"},
		{[]string{"ls", "--check", "other/"}, 0, ""},
		{[]string{"ls", "--held-longer", "1h", "--check"}, 0, "0 locks"},
		{[]string{"ls", "--format", "ndjson"}, 0, `"token":"` + token + `"`},
		{[]string{"show", "deploy/a"}, 0, "held by  alice's deploy, token " + token},
		{[]string{"show", "--check", "deploy/a"}, 0, "waiting  ?"},
		{[]string{"show", "deploy/b"}, 0, "  free\n"},
		{[]string{"show", "--check", "--format", "json", "deploy/b"}, exitChecked, `"name": "deploy/b"`},
	} {
		code, stdout, stderr := runToEnd(t, env, test.args...)
		if code != test.code || !strings.Contains(stdout, test.want) || stderr != "" {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want code %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
	}
}

func TestHolderOfARun(t *testing.T) {
	own := locker.DefaultHolder()
	head := own[:strings.LastIndexByte(own, '/')+1]
	for program, want := range map[string]string{"report.sh (run)": head + "report.sh (run)", "a\nb": own, strings.Repeat("x", 300): own} {
		if got := holderOf(program); got != want {
			t.Errorf("the holder for %.20q says %q of itself, want %q", program, got, want)
		}
	}
}
