package doccheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/membackend"
)

// The README can be read in a terminal of 80 columns, with tabs of 4. Tables and lines with a link
// can't be wrapped everywhere.
func TestReadmeIsNarrow(t *testing.T) {
	number := 0
	for l := range strings.Lines(readPage(t, "README.md").text) {
		number++
		l = strings.ReplaceAll(strings.TrimRight(l, "\n"), "\t", "    ")
		if width := utf8.RuneCountInString(l); width > 80 && !strings.HasPrefix(l, "|") && !strings.Contains(l, "](") {
			t.Errorf("README.md:%d: %d columns, want 80 at most", number, width)
		}
	}
}

// squeeze makes any white space one space.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// The refusal in the README is the one that Open returns.
func TestRefusalInReadme(t *testing.T) {
	_, err := locker.Open(t.Context(), "mem://", locker.Correctness, locker.ScopeNetwork)
	if !errors.Is(err, locker.ErrGuarantee) {
		t.Fatalf("Open = %v, want %v", err, locker.ErrGuarantee)
	}
	if !strings.Contains(squeeze(readPage(t, "README.md").text), err.Error()) {
		t.Errorf("README.md doesn't have the error of Open: %v", err)
	}
}

// The pages name the version of Go that go.mod requires.
func TestGoVersionInPages(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, found := strings.Cut(string(mod), "\ngo ")
	if !found {
		t.Fatal("go.mod has no line that begins with go")
	}
	version, _, _ = strings.Cut(version, "\n")
	want := "Go " + strings.TrimSuffix(version, ".0") + " or later"
	for _, name := range []string{"README.md", "docs/versions.md"} {
		if !strings.Contains(readPage(t, name).text, want) {
			t.Errorf("%s doesn't have %q", name, want)
		}
	}
}

// The totals of the campaign in the README are the sums of the table in docs/proof.md.
func TestCampaignInReadme(t *testing.T) {
	var rounds, faults, backends, both int
	pauses := ""
	_, table, _ := strings.Cut(readPage(t, "docs/proof.md").text, "\nThis library, in all rounds of the run:\n\n")
	for l := range strings.Lines(table) {
		cells := cellsOf(l)
		if len(cells) == 0 {
			break
		}
		if cells[0] == "backend" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		backends++
		rounds += number(t, cells[1])
		faults += number(t, cells[2])
		if lost := cells[4]; lost != "0" {
			t.Errorf("%s lost %s updates with the fence; README.md says that none was lost", cells[0], lost)
		}
		if pauses != "" && cells[8] != pauses {
			t.Errorf("%s lost %s in the pause, and others %s; README.md says that all lost the same", cells[0], cells[8], pauses)
		}
		pauses = cells[8]
		promised, unpromised, _ := strings.Cut(strings.TrimSuffix(cells[6], " where it isn't promised"), ", and ")
		if promised != "0" {
			t.Errorf("on %s both believed in %s rounds; README.md says that this is promised nowhere", cells[0], promised)
		}
		if unpromised != "" {
			both += number(t, unpromised)
		}
	}
	if backends != 5 {
		t.Fatalf("the first table of a run in docs/proof.md has %d backends, want 5", backends)
	}
	fenced := 0
	for l := range strings.Lines(table) {
		if cells := cellsOf(l); len(cells) == 13 && cells[2] == "locker" && cells[3] == "yes" {
			fenced += number(t, cells[4])
		}
	}
	if off := 2*fenced - rounds; max(off, -off) > rounds/100 {
		t.Errorf("%d of %d rounds in docs/proof.md had the fence; README.md says half", fenced, rounds)
	}
	readme := squeeze(readPage(t, "README.md").text)
	for _, want := range []string{
		pauses + " acknowledged updates were lost",
		fmt.Sprintf("%s rounds (%s faults)", thousands(rounds), thousands(faults)),
		fmt.Sprintf("In %d of those rounds two holders believed", both),
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md doesn't have %q, which is what docs/proof.md says", want)
		}
	}
}

// The rows of hand-offs in the README are the last columns of those in docs/benchmarks.md.
func TestHandOffsInReadme(t *testing.T) {
	_, redis, _ := strings.Cut(readPage(t, "docs/benchmarks.md").text, "# Redis\n")
	redis, _, _ = strings.Cut(redis, "# Redlock\n")
	measured := map[string][]string{} // the peer's four figures with 64 contenders
	metrics := []string{"gap, p99, × PING", "a second", "requests an acquisition", "Jain's index"}
	for _, metric := range metrics {
		_, rows, found := strings.Cut(redis, "| "+metric+": locker | ")
		if !found {
			t.Fatalf("docs/benchmarks.md has no row %q for Redis", metric)
		}
		for i, l := range strings.SplitN("| locker | "+rows, "\n", 5)[:4] {
			cells := cellsOf(l)
			peer := strings.TrimPrefix(cells[0], "– ")
			if i > 0 && !strings.HasPrefix(cells[0], "– ") {
				t.Fatalf("row %q of docs/benchmarks.md has %d peers, want 4", metric, i)
			}
			figure, _, _ := strings.Cut(cells[3], " ±")
			if strings.HasPrefix(figure, "–") {
				figure = "too uncertain"
			}
			measured[peer] = append(measured[peer], figure)
		}
	}
	seen := 0
	for l := range strings.Lines(readPage(t, "README.md").text) {
		cells := cellsOf(l)
		if len(cells) != 1+len(metrics) {
			continue
		}
		peer, _, _ := strings.Cut(cells[0], " ")
		figures, known := measured[peer]
		if !known {
			continue
		}
		seen++
		if got := strings.Join(cells[1:], ", "); got != strings.Join(figures, ", ") {
			t.Errorf("README.md has %s for %s, and docs/benchmarks.md %s", got, peer, strings.Join(figures, ", "))
		}
	}
	if seen != 4 {
		t.Errorf("README.md has %d rows of hand-offs, want 4", seen)
	}
}

// Further figures in the README are in rows of the pages that it names.
func TestFiguresInReadme(t *testing.T) {
	readme := squeeze(readPage(t, "README.md").text)
	for _, tc := range []struct {
		readme string
		page   string
		rows   []string // beginnings of lines
	}{
		{"1 goroutine has 0.90 of the throughput of two scripts by hand, and redislock has 1.01.", "docs/benchmarks.md",
			[]string{"| 1 | 6,300 | 0.90 ± 8 % | ≥ 0.95×: **missed**, within the noise | 0.97 ± 4 % | 1.01 ± 9 % |"}},
		{"With 4 goroutines locker has 0.76, its lowest ratio; with 64 it has 1.81.", "docs/benchmarks.md",
			[]string{"| 4 | 31,000 | 0.76 ± 10 % |", "| 64 | 31,000 | 1.81 ± 5 % |"}},
		{"10,000 held leases take 3 goroutines and 8.95 MB; with rueidislock, 10,000 goroutines and 21.9 MB.", "docs/benchmarks.md",
			[]string{"| 10,000 held leases: heap, MB | 8.95 | 21.9 |", "| 10,000 held leases: goroutines | 3 | 10,000 |"}},
		{"the least lead was 34 ms, at a TTL of 3 s; with answers alone dropped it was 3 ms, on etcd.", "docs/guarantees.md",
			[]string{"| redis | both directions, requests alone | 34 ms |", "| | replies alone | 3 ms |"}},
		{"least where exclusion is promised was 1.2 ms, on Postgres, with answers half a TTL late.", "docs/proof.md",
			[]string{"| slow-answers | register | locker | no | 4 | 78 | 0 | 0 | 0 | 1.2 / 232.3 / 232.3 |"}},
		{"in all 12 such rounds the next holder came before that deadline.", "docs/failovers.md",
			[]string{"| postgres-replica | 36 | 12 | 696 | 0 | 0, and 12 where it isn't promised |"}},
		{"for up to 1.8 s with rueidislock (in 4 of 6 rounds), 0.5 s with pglock (2 of 6) and 0.8 s with etcd's Mutex (3 of 6).", "docs/proof.md",
			[]string{
				"| pause | counter | rueidislock | no | 3 | 60 | 18 | 0 | 3, up to 1770.5 ms | -1777.3 /",
				"| pause | register | pglock | no | 1 | 20 | 1 | 0 | 1, up to 482.3 ms |",
				"| pause | register | Mutex | no | 1 | 20 | 1 | 0 | 1, up to 805.5 ms |",
			}},
	} {
		if !strings.Contains(readme, tc.readme) {
			t.Errorf("README.md doesn't have %q", tc.readme)
		}
		text := readPage(t, tc.page).text
		for _, row := range tc.rows {
			if !strings.Contains(text, "\n"+row) {
				t.Errorf("%s has no row that begins with %q, and README.md says %q", tc.page, row, tc.readme)
			}
		}
	}
}

// cellsOf returns the cells of a row of a table, or nothing.
func cellsOf(l string) []string {
	l = strings.TrimSpace(l)
	if !strings.HasPrefix(l, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(l, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// thousands writes a number below a million with a comma.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
