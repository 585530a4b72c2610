package demo_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/cmd/locker/internal/demo"
	"github.com/fencedlock/locker/membackend"
)

var update = flag.Bool("update", false, "write the golden files again")

// play runs the story in a synctest bubble, where it takes no real time and all times are exact.
func play(t *testing.T, fenced bool) (events []demo.Event, o demo.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		a, b := membackend.New(membackend.WithServer(server)), membackend.New(membackend.WithServer(server))
		defer a.Close()
		defer b.Close()
		s := demo.Story{A: a, B: b, Name: "demo", TTL: 2 * time.Second, Fenced: fenced, Tell: func(e demo.Event) { events = append(events, e) }}
		var err error
		if o, err = s.Play(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return events, o
}

func TestOutcome(t *testing.T) {
	if _, o := play(t, true); o.Lost || o.Balance != 120 {
		t.Errorf("with the fence: %+v, want B's 120", o)
	}
	if _, o := play(t, false); !o.Lost || o.Balance != 110 {
		t.Errorf("without the fence: %+v, want A's 110, and B's update lost", o)
	}
}

// The picture in the README shows what the code does.
func TestPicture(t *testing.T) {
	var panels []demo.Panel
	for _, fenced := range []bool{true, false} {
		p := demo.Panel{Fenced: fenced}
		p.Events, p.Outcome = play(t, fenced)
		panels = append(panels, p)
	}
	var got bytes.Buffer
	if err := demo.SVG(&got, panels); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "..", "..", "docs", "demo.svg"), got.Bytes())
}

// Only one of the two has the lock at a time, though A doesn't know when it has lost it.
func TestPictureShowsOneHolder(t *testing.T) {
	p := demo.Panel{Fenced: true}
	p.Events, p.Outcome = play(t, true)
	var got bytes.Buffer
	if err := demo.SVG(&got, []demo.Panel{p}); err != nil {
		t.Fatal(err)
	}
	bars := regexp.MustCompile(`<rect class="holds" x="(\d+)" y="(\d+)" width="16" height="(\d+)" transform`).FindAllStringSubmatch(got.String(), -1)
	var spans [][3]int
	for _, b := range bars {
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(b[i+1])
		}
		spans = append(spans, [3]int{n[0], n[1], n[1] + n[2]})
	}
	if len(spans) != 2 || spans[0][0] == spans[1][0] || spans[0][2] != spans[1][1] || spans[1][1] >= spans[1][2] {
		t.Errorf("lane, begin and end of the bars: %v, want B's bar to begin where A's ends", spans)
	}
}

func TestText(t *testing.T) {
	var got bytes.Buffer
	for _, fenced := range []bool{true, false} {
		out := demo.NewText(&got)
		out.Head("title")
		events, o := play(t, fenced)
		for _, e := range events {
			out.Event(e)
		}
		if err := out.End(o); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, filepath.Join("testdata", "demo.txt"), got.Bytes())
	if wide := regexp.MustCompile(`(?m)^.{81,}`).Find(got.Bytes()); wide != nil {
		t.Errorf("a line is too wide for a terminal: %s", wide)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code makes (go test -update writes it):\n%s", path, got)
	}
}
