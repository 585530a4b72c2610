package kit_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// config is what a backend could read of a URL.
type config struct {
	s string
	d time.Duration
	i int
	b bool
}

func read(t *testing.T, query string) (config, error) {
	t.Helper()
	p := kit.NewParams(&url.URL{Scheme: "fake", Host: "user:s3cret@host", RawQuery: query})
	c := config{
		s: p.String("s", "default"),
		d: p.Duration("d", time.Minute),
		i: p.Int("i", 7),
		b: p.Bool("b", true),
	}
	return c, p.Err()
}

func TestParams(t *testing.T) {
	defaults := config{"default", time.Minute, 7, true}
	for _, tc := range []struct {
		query string
		want  config
	}{
		{"", defaults},
		{"s=x%20y&d=1m30s&i=-3&b=0", config{"x y", 90 * time.Second, -3, false}},
		{"s=", config{"", time.Minute, 7, true}},
		{"b=true", defaults},
	} {
		got, err := read(t, tc.query)
		if err != nil || got != tc.want {
			t.Errorf("%q = %+v, %v, want %+v", tc.query, got, err, tc.want)
		}
	}
}

// Each mistake is named, and no value is printed: it may be secret.
func TestParamsRefuse(t *testing.T) {
	for _, tc := range []struct {
		query string
		names string
	}{
		{"t=s3cret", `"t"`},
		{"t=s3cret&u=s3cret", `"t", "u"`},
		{"S=s3cret", `"S"`},
		{"T=s3cret", `are all special characters`},
		{"s=s3cret&s=s3cret", `"s" is given twice`},
		{"d=s3cret", `"d"`},
		{"d=0s", `"d"`},
		{"d=-5s", `"d"`},
		{"d=5", `"d" is invalid: want a positive time with its unit, such as 5s`},
		{"d=", `"d"`},
		{"d=s3cret&d=s3cret", `"d"`},
		{"i=s3cret", `"i"`},
		{"i=1.5", `"i" is invalid: want a whole number`},
		{"b=s3cret", `"b"`},
		{"b=yes", `"b" is invalid: want true or false`},
		{"s=%zz-s3cret", "parsed"},
		{"s=s3cret;d=1s", "parsed"},
	} {
		_, err := read(t, tc.query)
		if err == nil {
			t.Errorf("%q was accepted", tc.query)
			continue
		}
		if !errors.Is(err, locker.ErrOption) {
			t.Errorf("%q: %v, want it to match ErrOption", tc.query, err)
		}
		if !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%q: %v, want it to name %s", tc.query, err, tc.names)
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "host") {
			t.Errorf("%q: %v tells a value", tc.query, err)
		}
	}
}

// A password whose "?" isn't escaped makes the rest of it, and the host, a parameter.
func TestParamsDoNotPrintAPassword(t *testing.T) {
	for _, text := range []string{
		"redis://:12?s3cretpart@h:1/0", "redis://:?s3cretpart@h", "redis://:12?s3cret&part@h", "redis://:12?s3cret#part@h",
		"redis://:12?s3cret;part@h", "redis://:12?S3cret", "redis://:12?s3cret%20x", "redis://:12?s3cret-x=1",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		err = kit.NewParams(u).Err()
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "s3cret") || !strings.Contains(err.Error(), "escaped?") {
			t.Errorf("%s: %v, want an error that asks for escapes and repeats nothing", text, err)
		}
	}
}

func TestParamsOfABackendWithoutAny(t *testing.T) {
	err := kit.NewParams(&url.URL{RawQuery: "ttl=1s"}).Err()
	if err == nil || !strings.HasSuffix(err.Error(), `unknown parameter "ttl"; there are none here`) {
		t.Errorf("Err = %v, want it to say that there are none", err)
	}
}

// The first mistake is the one that is reported, and a backend without parameters says so.
func TestParamsOrder(t *testing.T) {
	p := kit.NewParams(&url.URL{RawQuery: "b=maybe&a=1&a=2&x=1"})
	p.Int("a", 0)
	p.Bool("b", false)
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), `"a" is given twice`) {
		t.Errorf("Err = %v, want the first mistake that was met", err)
	}
	if err := kit.NewParams(&url.URL{}).Err(); err != nil {
		t.Errorf("Err of no parameters = %v", err)
	}
	p = kit.NewParams(&url.URL{RawQuery: "z=1"})
	p.String("b", "")
	p.String("a", "")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("Err = %v, want it to list what is known", err)
	}
}

func FuzzParams(f *testing.F) {
	for _, q := range []string{"", "s=x", "d=1s&i=2", "s=%zz", "d=s3cret", "=", "&&", "s=1&s=2", "%00=1"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		c, err := read(t, query)
		if err != nil && !errors.Is(err, locker.ErrOption) {
			t.Errorf("%q: %v, want it to match ErrOption", query, err)
		}
		if c.d <= 0 {
			t.Errorf("%q: a duration of %v", query, c.d)
		}
	})
}
