package driver

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// Params reads the parameters of a URL and remembers which were asked for, so that [Params.Err] can refuse the rest:
// a parameter that is misspelt must not be ignored. Its errors name parameters, never their values, which may be
// secret, and match [locker.ErrOption].
type Params struct {
	values url.Values
	known  []string
	err    error
}

// NewParams begins to read the query of u.
func NewParams(u *url.URL) *Params {
	values, err := url.ParseQuery(u.RawQuery)
	p := &Params{values: values}
	if err != nil {
		p.fail("the parameters can't be parsed; are their special characters escaped?")
	}
	return p
}

// String returns the value of a parameter, or def when it isn't there.
func (p *Params) String(name, def string) string {
	return param(p, name, def, func(s string) (string, error) { return s, nil })
}

// Strings returns all values of a parameter that may be given more than once, in order.
func (p *Params) Strings(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

// Duration returns the value of a parameter such as 30s or 1m30s, which must be positive, or def when it isn't there.
func (p *Params) Duration(name string, def time.Duration) time.Duration {
	return param(p, name, def, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err == nil && d <= 0 {
			err = strconv.ErrRange
		}
		return d, err
	})
}

// Int returns the value of a parameter, or def when it isn't there.
func (p *Params) Int(name string, def int) int { return param(p, name, def, strconv.Atoi) }

// Bool returns the value of a parameter (true or false, 1 or 0), or def when it isn't there.
func (p *Params) Bool(name string, def bool) bool { return param(p, name, def, strconv.ParseBool) }

// Err returns the first mistake: a value that can't be parsed, a parameter that was given twice, or one that nobody
// asked for. Call it after all others, before any I/O.
func (p *Params) Err() error {
	var unknown []string
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		slices.Sort(p.known)
		p.fail("unknown parameter %s (known: %s)", strings.Join(unknown, ", "), strings.Join(p.known, ", "))
	}
	return p.err
}

func (p *Params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: URL: "+format, append([]any{locker.ErrOption}, args...)...)
	}
}

func param[T any](p *Params, name string, def T, parse func(string) (T, error)) T {
	p.known = append(p.known, name)
	given := p.values[name]
	if len(given) == 0 {
		return def
	}
	v, err := parse(given[0])
	switch {
	case len(given) > 1:
		p.fail("parameter %q is given twice", name)
	case err != nil:
		p.fail("parameter %q has a value that can't be meant for a %T", name, def)
	default:
		return v
	}
	return def
}
