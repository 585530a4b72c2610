package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The tables of docs/benchmarks.md are made of the rows of results.json, as the charts are. A section
// of the page that is named after a backend has up to three: of acquire + release, of hand-offs, and
// of many leases and waiters. The program's own output has more figures, and is too wide for a page.

// pageTables make the tables, by the first cell of each.
var pageTables = map[string]func(figures) [][]string{
	"goroutines":           figures.loadTable,
	"hand-off, contenders": figures.handOffTable,
	"many":                 figures.manyTable,
}

// writePage replaces the tables of a page.
func writePage(file string, rows []row) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(replaceTables(string(page), rows)), 0o644)
}

// replaceTables returns the page with tables of the rows. The tables of backends without rows stay as
// they are.
func replaceTables(page string, rows []row) string {
	var result strings.Builder
	var section figures // the rows of the backend that the section is about
	old := false        // in a table that was replaced
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			section = figuresOf(rows, strings.ToLower(strings.Trim(line, "# \n")))
		}
		if old = old && strings.HasPrefix(line, "|"); old {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if table := pageTables[first]; len(section) > 0 && table != nil && strings.HasPrefix(line, "|") {
			line, old = narrowMarkdown(table(section)), true
		}
		result.WriteString(line)
	}
	return result.String()
}

// narrowMarkdown formats lines as a table whose cells aren't padded. The first line is its head.
func narrowMarkdown(lines [][]string) string {
	var text strings.Builder
	for n, line := range lines {
		text.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if n == 0 {
			text.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return text.String()
}

// figures are the rows of one backend.
type figures []row

func figuresOf(rows []row, backend string) (own figures) {
	for _, w := range rows {
		if w.Backend == backend {
			own = append(own, w)
		}
	}
	return own
}

// find returns the row, or one that is empty.
func (all figures) find(peer, scenario, metric string) row {
	for _, w := range all {
		if w.Peer == peer && w.Scenario == scenario && w.Metric == metric {
			return w
		}
	}
	return row{}
}

// peers returns this project and the other peers of a list that have figures in one of the
// scenarios.
func (all figures) peers(list []string, scenarios []string) (peers []string) {
	for _, peer := range append([]string{thisProject}, list...) {
		if slices.ContainsFunc(all, func(w row) bool { return w.Peer == peer && slices.Contains(scenarios, w.Scenario) }) {
			peers = append(peers, peer)
		}
	}
	return peers
}

// comparedTo returns what the ratios of a metric are compared to; "": there is no ratio.
func (all figures) comparedTo(metric string) string {
	for _, w := range all {
		if w.Metric == metric && w.To != "" {
			return w.To
		}
	}
	return ""
}

func (all figures) loadTable() [][]string {
	var scenarios []string
	for _, r := range loadRows() {
		scenarios = append(scenarios, r.name())
	}
	others := all.peers(libraries, scenarios)[1:]
	lines := [][]string{slices.Concat(
		[]string{"goroutines", "by hand, a second", thisProject, "goal"}, others,
		[]string{thisProject + ": p99", "CPU of the client", "of the server", "requests"})}
	byHand := all.comparedTo("throughput")
	for _, r := range loadRows() {
		own := all.find(thisProject, r.name(), "throughput")
		if own.Peer == "" {
			continue
		}
		label := strconv.Itoa(r.goroutines)
		if _, added, slow := strings.Cut(r.name(), ", + "); slow {
			label += ", + " + added
		}
		line := []string{label, all.find(byHand, r.name(), "throughput").valueCell(), own.ratioCell(), judged(own.Verdict)}
		for _, other := range others {
			line = append(line, all.find(other, r.name(), "throughput").ratioCell())
		}
		for _, metric := range []string{"p99", "CPU of the client", "CPU of the server"} {
			line = append(line, all.find(thisProject, r.name(), metric).ratioCell())
		}
		lines = append(lines, append(line, all.find(thisProject, r.name(), "requests an operation").valueCell()))
	}
	return lines
}

// handOffMetrics are the metrics of hand-offs, and how the table calls them.
var handOffMetrics = [][2]string{
	{"gap, median", "gap, median"}, {"gap, p99", "gap, p99"}, {"hand-offs", "a second"},
	{"requests an acquisition", "requests an acquisition"}, {"Jain index", "Jain's index"},
}

func (all figures) handOffTable() [][]string {
	var scenarios []string
	head := []string{"hand-off, contenders"}
	for _, n := range contenderCounts {
		scenarios, head = append(scenarios, handOffName(n)), append(head, strconv.Itoa(n))
	}
	lines := [][]string{append(head, "goal")}
	for _, m := range handOffMetrics {
		to := strings.TrimSuffix(all.comparedTo(m[0]), " alone")
		for _, peer := range all.peers(append(slices.Clone(libraries), pgByHand), scenarios) {
			label := "– " + peer
			if peer == thisProject {
				label = m[1] + ": " + peer
				if to != "" {
					label = m[1] + ", × " + to + ": " + peer
				}
			}
			line, verdicts := []string{label}, []string(nil)
			for _, scenario := range scenarios {
				w := all.find(peer, scenario, m[0])
				if to != "" {
					line = append(line, w.ratioCell())
				} else {
					line = append(line, w.valueCell())
				}
				verdicts = append(verdicts, w.Verdict)
			}
			lines = append(lines, append(line, judgedTogether(verdicts)))
		}
	}
	return lines
}

func (all figures) manyTable() [][]string {
	scenarios := []string{heldLeasesName}
	for _, n := range lockerCounts {
		scenarios = append(scenarios, waitersName(n))
	}
	peers := all.peers(libraries, scenarios)
	lines := [][]string{slices.Concat([]string{"many"}, peers, []string{"goal"})}
	for _, w := range all {
		if w.Peer != thisProject || !slices.Contains(scenarios, w.Scenario) {
			continue
		}
		label := strings.Replace(w.Scenario, "10000", "10,000", 1) + ": " + w.Metric
		if w.Unit != "" {
			label += ", " + w.Unit
		}
		line := []string{label}
		for _, peer := range peers {
			line = append(line, all.find(peer, w.Scenario, w.Metric).valueCell())
		}
		lines = append(lines, append(line, judged(w.Verdict)))
	}
	return lines
}

// ratioCell is the ratio of the row, and how far its bounds are away.
func (w row) ratioCell() string {
	if w.Ratio == nil {
		return w.emptyCell()
	}
	cell := fmt.Sprintf("%.2f", *w.Ratio)
	if w.Low != nil && w.High != nil {
		cell += " " + summary{*w.Ratio, *w.Low, *w.High}.String()
	}
	return cell
}

func (w row) valueCell() string {
	if w.Value == nil {
		return w.emptyCell()
	}
	return threeDigits(*w.Value)
}

// emptyCell says why there is no figure.
func (w row) emptyCell() string {
	switch {
	case w.Peer == "": // that peer isn't measured there
		return ""
	case strings.HasPrefix(w.Missing, "±"):
		return "– (" + w.Missing + ")"
	case w.Missing != "":
		return w.Missing
	}
	return "–"
}

func judged(verdict string) string { return strings.ReplaceAll(verdict, "missed", "**missed**") }

// judgedTogether joins the verdicts of the columns of a line. What they have in common is said once.
func judgedTogether(verdicts []string) string {
	var different []string
	for _, v := range verdicts {
		if v != "" && !slices.Contains(different, v) {
			different = append(different, v)
		}
	}
	return judged(strings.Join(different, "; "))
}

// threeDigits formats v with three significant digits, and thousands apart.
func threeDigits(v float64) string {
	if math.Abs(v) < 999.5 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow10(int(math.Log10(math.Abs(v))) - 2)
	digits := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// present shows results that were written before, as charts and in a page.
func present(chartFolder, page string, files []string) error {
	if chartFolder == "" && page == "" {
		return fmt.Errorf("%s: invalid: files are shown with -charts or -page, as in -page ../docs/benchmarks.md results.json", strings.Join(files, " "))
	}
	rows, err := readJSON(files)
	if err != nil {
		return err
	}
	if chartFolder != "" {
		err = writeCharts(chartFolder, rows)
	}
	if page != "" {
		err = errors.Join(err, writePage(page, rows))
	}
	return err
}
