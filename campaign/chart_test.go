package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateCharts = flag.Bool("update", false, "write the charts in testdata again")

// chartRun has figures of each kind: below zero, without means to know, with the fence.
var chartRun = &result{Rows: []*row{
	{Backend: "redis", Fault: "nothing", Workload: "counter", Library: "locker", Acknowledged: 14},
	{Backend: "redis", Fault: "pause", Workload: "counter", Library: "locker", Acknowledged: 700, Lost: 300, Margin: &spread{36.8, 38, 42.7}},
	{Backend: "redis", Fault: "pause", Workload: "counter", Library: "locker", Fence: true, Acknowledged: 650, Margin: &spread{34.1, 38, 40}},
	{Backend: "redis", Fault: "pause", Workload: "set", Library: "locker", Acknowledged: 700, Lost: 7, Margin: &spread{35, 38, 50}},
	{Backend: "redis", Fault: "pause", Workload: "counter", Library: "SET NX & PX", Acknowledged: 700, Lost: 1},
	{Backend: "redis", Fault: "pause", Workload: "counter", Library: "rueidislock", Acknowledged: 700, Lost: 299, Margin: &spread{-1918.4, -20, 1}},
	{Backend: "redis", Fault: "cut", Workload: "counter", Library: "locker", Acknowledged: 13, Margin: &spread{35.7, 36, 1033}},
	{Backend: "etcd", Fault: "cut", Workload: "counter", Library: "locker", Acknowledged: 13, Margin: &spread{523.7, 600, 61000}},
}}

// TestCharts compares the charts with those in testdata.
func TestCharts(t *testing.T) {
	images := imagesOf(chartRun, "proof", "")
	if len(images) != 3 {
		t.Errorf("%d charts, want the losses, and the margins of redis and etcd", len(images))
	}
	for key, alt := range map[string]string{
		"lost":  "redis, locker: 43; redis, locker with the fence: 0; redis, SET NX & PX: < 1; redis, rueidislock: 43.",
		"redis": "Below zero: rueidislock in pause (-1918 ms).",
		"etcd":  "No margin is below zero.",
	} {
		i := images[key]
		if !strings.HasSuffix(i.Alt, ". "+alt) || filepath.Dir(i.File) != "proof" {
			t.Errorf("%s: in %s, with the text %q, want %q", key, i.File, i.Alt, alt)
		}
		golden := filepath.Join("testdata", filepath.Base(i.File))
		if *updateCharts {
			if err := os.WriteFile(golden, []byte(i.svg), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if i.svg != string(want) {
			t.Errorf("%s differs from %s; write it again with -update if that is wanted, and look at it", i.File, golden)
		}
		wantXML(t, i.svg)
	}
}

func wantXML(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
