package kit_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker/driver/kit"
)

func TestParamsTLSFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		query string
		on    bool
		says  string // the error; empty: there is none
	}{
		{"", false, ""},
		{"", true, ""},
		{"server_name=h", false, "fakes://"},
		{"skip_verify=true", false, "fakes://"},
		{"ca_file=" + file, true, "has no certificate"},
		{"ca_file=" + file + "-missing", true, "ca_file"},
		{"cert_file=" + file, true, "cert_file and key_file"},
		{"key_file=" + file, true, "cert_file and key_file"},
	} {
		p := kit.NewParams(&url.URL{RawQuery: tc.query})
		files := p.TLSFiles()
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		config, err := files.Load(tc.on, "fakes")
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %v, want %q", tc.query, err, tc.says)
		}
		if err == nil && (config != nil) != tc.on {
			t.Errorf("%q: settings %+v, want some with TLS alone", tc.query, config)
		}
	}
	config, err := kit.TLSFiles{ServerName: "other", SkipVerify: true}.Load(true, "fakes")
	if err != nil || config.ServerName != "other" || !config.InsecureSkipVerify {
		t.Errorf("Load = %+v, %v, want the name and no verification", config, err)
	}
}

func TestParamsStrings(t *testing.T) {
	p := kit.NewParams(&url.URL{RawQuery: "a=1&b=x&a=2&a="})
	if got := p.Strings("a"); !slices.Equal(got, []string{"1", "2", ""}) {
		t.Errorf("Strings = %q, want all in order", got)
	}
	if got := p.Strings("c"); len(got) != 0 {
		t.Errorf("Strings of what isn't there = %q, want none", got)
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), `"b"`) || strings.Contains(err.Error(), "twice") {
		t.Errorf("Err = %v, want that b is unknown, and nothing of a", err)
	}
}
