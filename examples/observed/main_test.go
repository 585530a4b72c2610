package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt")

// families reads the metrics of a page: for each its type, and the labels that it has on any series.
func families(page string) (types map[string]string, labels map[string]map[string]bool) {
	types, labels = make(map[string]string), make(map[string]map[string]bool)
	label := regexp.MustCompile(`(\w+)="`)
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
			types[name], labels[name] = kind, make(map[string]bool)
			continue
		}
		series, list, _ := strings.Cut(line, "{")
		for name, has := range labels {
			if series != name && series != name+"_bucket" && series != name+"_count" && series != name+"_sum" {
				continue
			}
			for _, m := range label.FindAllStringSubmatch(list, -1) {
				if m[1] != "le" {
					has[m[1]] = true
				}
			}
		}
	}
	return types, labels
}

// list has a line for each metric of the page: its name, type and labels.
func list(page string) string {
	var lines []string
	types, labels := families(page)
	for name, kind := range types {
		if strings.HasPrefix(name, "locker_") {
			lines = append(lines, strings.Join(append([]string{name, kind}, slices.Sorted(maps.Keys(labels[name]))...), " ")+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %s, %v", url, response.Status, err)
	}
	return string(page)
}

var instrumented bool

// The golden file is also what the dashboard and the alerts may name.
func TestEveryMetricIsShown(t *testing.T) {
	if instrumented {
		t.Skip("-count: the instruments of this process are those of the first provider")
	}
	instrumented = true
	s, link := membackend.NewServer(), membackend.NewLink()
	l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithDefaultTTL(5*time.Second))
	defer l.Close()
	pages, stop, err := observed(l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	server := httptest.NewServer(pages)
	defer server.Close()
	play(t, l, s, link)

	const file = "testdata/metrics.txt"
	want, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var got string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got = list(get(t, server.URL+"/metrics"))
		if got == string(want) || time.Now().After(deadline) {
			break
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(want) {
		t.Errorf("/metrics shows\n%swant\n%s", got, want)
	}
	if page := get(t, server.URL+"/debug/locks"); !strings.Contains(page, "observed on mem") {
		t.Errorf("/debug/locks shows\n%s", page)
	}
}

// The table in the docs has the metrics that are shown, and no others.
func TestDocs(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown, documented []string
	for line := range strings.Lines(string(golden)) {
		shown = append(shown, strings.Fields(line)[0])
	}
	row := regexp.MustCompile("(?m)^\\| `(locker\\.[a-z_.]+)` \\|.*\\| `(locker_[a-z_]+)` \\|$")
	for _, m := range row.FindAllStringSubmatch(string(docs), -1) {
		documented = append(documented, m[2])
		if !strings.HasPrefix(m[2], strings.ReplaceAll(m[1], ".", "_")) {
			t.Errorf("%s is %s in Prometheus", m[1], m[2])
		}
	}
	slices.Sort(documented)
	if !slices.Equal(shown, documented) {
		t.Errorf("the metrics are\n%v, and those in the docs\n%v", shown, documented)
	}
}

// play has everything happen that has a metric.
func play(t *testing.T, l locker.Locker, s *membackend.Server, link *membackend.Link) {
	ctx := t.Context()
	acquire := func(name string) locker.Lease {
		t.Helper()
		lease, err := l.Acquire(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	failed := errors.New("service failed")
	work := func(name string) error {
		return locker.Do(ctx, l, name, func(ctx context.Context, _ locker.Lease) error { return claim(ctx, name) })
	}
	if err := work("invoices/1"); err != nil {
		t.Fatal(err)
	}
	if err := claim(ctx, "invoices/1"); err == nil {
		t.Fatal("a claim without a lease has passed")
	}
	stop := func(context.Context, leader.Term) error { return leader.ErrStop }
	if err := leader.Run(ctx, l, "clerk", stop, leader.WithObserver(otellocker.Leader("clerk"))); !errors.Is(err, leader.ErrStop) {
		t.Fatal(err)
	}

	lease := acquire("invoices/1") // renewed, waited for, requeued, and lost
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	s.RefuseRenewals(failed)
	if err := lease.Renew(ctx); err == nil {
		t.Fatal("Renew = nil")
	}
	s.RefuseRenewals(nil)
	if _, err := locker.TryAcquire(ctx, l, "invoices/1"); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v", err)
	}
	worked := make(chan error, 1)
	go func() { worked <- work("invoices/1") }()
	waitFor(t, l, func(stats locker.Stats) bool {
		if stats.Waiting == 1 && stats.Requeued == 0 {
			link.Sever() // until there was a place to lose
		}
		return stats.Requeued > 0
	})
	s.Expire("invoices/1")
	if err := <-worked; err != nil {
		t.Fatal(err)
	}

	s.Fail(failed)
	if _, err := l.Acquire(ctx, "invoices/2"); !errors.Is(err, failed) {
		t.Fatalf("Acquire = %v", err)
	}
	s.Fail(nil)

	lease = acquire("invoices/3")
	s.Pause()
	if err := lease.Release(ctx); err == nil { // removed later
		t.Fatal("Release = nil from a service that is paused")
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(short, "invoices/4"); err == nil { // granted later
		t.Fatal("Acquire = nil from a service that is paused")
	}
	s.Resume()
}

// The program works, and ends without a lock when it is interrupted.
func TestWork(t *testing.T) {
	s := membackend.NewServer()
	l := membackend.New(membackend.WithServer(s))
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work(ctx, l, 4, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	defer func() {
		stop()
		<-ended
		if stats, _ := locker.StatsOf(l); stats.Held != 0 || stats.Waiting != 0 {
			t.Errorf("Stats = %+v", stats)
		}
	}()
	waitFor(t, l, func(stats locker.Stats) bool { return stats.Granted >= 6 })
}

// waitFor asks for the statistics again and again until cond is true of them.
func waitFor(t *testing.T, l locker.Locker, cond func(locker.Stats) bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stats, _ := locker.StatsOf(l)
		if cond(stats) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Stats = %+v after 20 s", stats)
		}
	}
}
