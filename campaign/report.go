package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/fencedlock/locker/internal/chart"
)

// writeReport writes the page from the JSON of one or several runs, and its charts to a folder with
// the name of the page.
func writeReport(page string, files []string) error {
	if len(files) == 0 {
		return fmt.Errorf("-report %s: no JSON file is named as an argument", page)
	}
	var all []*result
	for _, file := range files {
		r, err := readResult(file)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b *result) int { return a.Started.Compare(b.Started) })
	dir := strings.TrimSuffix(filepath.Clean(page), filepath.Ext(page))
	charts := chartsOf(all, filepath.Base(dir))
	text, err := reportOf(all, charts)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Clean(page), []byte(text), 0o644), writeCharts(dir, charts))
}

// chartsOf returns the charts of all runs, whose files are in dir.
func chartsOf(all []*result, dir string) (charts []map[string]*image) {
	for i, r := range all {
		prefix := ""
		if i > 0 {
			prefix = fmt.Sprintf("run%d-", i+1)
		}
		charts = append(charts, imagesOf(r, dir, prefix))
	}
	return charts
}

// writeCharts writes the files of all charts to dir, and removes those of an earlier report.
func writeCharts(dir string, charts []map[string]*image) error {
	pictures := make(map[string]string)
	for _, images := range charts {
		for _, i := range images {
			pictures[filepath.Base(i.File)] = i.svg
		}
	}
	return chart.Replace(dir, pictures)
}

func reportOf(all []*result, charts []map[string]*image) (string, error) {
	in := ranIn(all)
	data := reportData{
		Title: "Proof", Runs: all, Charts: charts, Excluded: exclusionTable(in), NotTried: in.notTried(),
		Rival: rivalUpdates, Warm: 2 * warmUpdates,
	}
	data.Variants, data.Failovers = in.variants()
	if data.Failovers {
		data.Title = "Failovers"
	}
	for _, f := range faults {
		if in.faults[f.name] {
			data.Faults = append(data.Faults, shownFault{f.name, f.what})
		}
	}
	for _, w := range workloads {
		if in.workloads[w.name] {
			data.Workloads = append(data.Workloads, shownWorkload{w.name, w.what, w.losses})
		}
	}
	for _, b := range backends {
		if !in.backends[b.name] {
			continue
		}
		shown := shownBackend{Name: b.name, TTL: b.ttl}
		for _, l := range b.libraries {
			if l.planted == nil {
				shown.Shown = append(shown.Shown, shownLibrary{l.name, l.setUp, l.looks})
			}
		}
		data.Backends = append(data.Backends, shown)
	}
	var text strings.Builder
	err := reportPage.Execute(&text, data)
	return text.String(), err
}

// reportData is what the page is made of.
type reportData struct {
	Title       string
	Variants    bool // other forms of services are among the backends
	Failovers   bool // and there is nothing else
	Runs        []*result
	Charts      []map[string]*image // of each run
	Faults      []shownFault
	Workloads   []shownWorkload
	Backends    []shownBackend
	Excluded    []shownExclusion
	NotTried    []string
	Rival, Warm int
}

type (
	shownFault    struct{ Name, What string }
	shownWorkload struct{ Name, What, Losses string }
	shownLibrary  struct{ Name, SetUp, Looks string }
	shownBackend  struct {
		Name  string
		TTL   time.Duration
		Shown []shownLibrary
	}
)

var reportPage = template.Must(template.New("").Funcs(template.FuncMap{
	"join":     strings.Join,
	"versions": versions,
	"values":   values,
	"section":  backendRows,
	"commands": commands,
	"mark":     mark,
	"totals":   totals,
	"figure":   func(s *spread) string { return s.String() },
}).Parse(reportText))

// versions lists a map in the order of its keys.
func versions(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+" "+m[key])
	}
	return strings.Join(words, ", ")
}

// values lists the values of a map in the order of its keys.
func values(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, m[key])
	}
	return strings.Join(words, "; ")
}

// backendRows returns the rows of a backend in a run, by fault and workload in the order of the
// tables.
func backendRows(r *result, backend string) []*row {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(r *row) bool { return r.Backend != backend })
	place := func(r *row) int {
		return slices.IndexFunc(faults, func(f fault) bool { return f.name == r.Fault })
	}
	work := func(r *row) int {
		return slices.IndexFunc(workloads, func(w workload) bool { return w.name == r.Workload })
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(work(a), work(b))) })
	return rows
}

// commands repeat rows of a backend: one for each workload. FAULT stands for the fault of a row.
func commands(r *result, backend string) (all []string) {
	for _, w := range workloads {
		rounds, peerRounds := 0, 0
		for _, o := range r.Rows {
			switch {
			case o.Backend != backend || o.Workload != w.name:
			case o.Library == thisProject:
				rounds = max(rounds, o.Rounds)
			default:
				peerRounds = max(peerRounds, o.Rounds)
			}
		}
		if max(rounds, peerRounds) == 0 {
			continue
		}
		text := fmt.Sprintf("go run . -backend '^%s$' -fault FAULT", backend)
		if w.name != counterWorkload {
			text += " -workload " + w.name
		}
		text += fmt.Sprint(" -rounds ", max(rounds, peerRounds))
		if 0 < peerRounds && peerRounds < rounds {
			text += fmt.Sprint(" -peer-rounds ", peerRounds)
		}
		all = append(all, text+fmt.Sprint(" -seed ", r.Seed))
	}
	return all
}

// remarks is what a row says besides its figures.
func (r *row) remarks() (all []string) {
	count := func(n int, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n > 1:
			all = append(all, fmt.Sprint(n, " ", many))
		}
	}
	count(r.NotGranted, "rival was not granted the lock in its time", "rivals were not granted the lock in their time")
	count(r.Late, "grant more than a second after the bound", "grants more than a second after the bound")
	count(r.Failed, "round in which a contender failed after the fault", "rounds in which a contender failed after the fault")
	count(r.OutOfOrder, "token out of order", "tokens out of order")
	count(r.Reversed, "token smaller than an earlier holder's", "tokens smaller than an earlier holder's")
	count(r.Returned, "lost lease that came back", "lost leases that came back")
	reasons := " (" + r.whyVoid() + ")"
	count(r.Void, "void round"+reasons, "void rounds"+reasons)
	for _, e := range r.Excused {
		all = append(all, "not promised: "+e)
	}
	for _, f := range r.Fails {
		all = append(all, "**FAILS**: "+f)
	}
	return all
}

// mark is the remarks as one cell of a table. Errors that are joined have a line each.
func mark(r *row) string {
	return strings.NewReplacer("|", "/", "\n", ", ").Replace(strings.Join(r.remarks(), "; "))
}
