package kit

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
	torn   bool // a password that isn't escaped may have got into the query
	err    error
}

// NewParams begins to read the query of u.
func NewParams(u *url.URL) *Params {
	values, err := url.ParseQuery(u.RawQuery)
	p := &Params{values: values, torn: strings.Contains(u.RawQuery+u.Fragment, "@")}
	if err != nil {
		p.fail("the parameters can't be parsed; are their special characters escaped?")
	}
	return p
}

// String returns the value of a parameter, or def when it isn't there.
func (p *Params) String(name, def string) string {
	return param(p, name, def, "a text", func(s string) (string, error) { return s, nil })
}

// Strings returns all values of a parameter that may be given more than once, in order.
func (p *Params) Strings(name string) []string {
	p.known = append(p.known, name)
	return p.values[name]
}

// Duration returns the value of a parameter such as 30s or 1m30s, which must be positive, or def when it isn't there.
func (p *Params) Duration(name string, def time.Duration) time.Duration {
	return param(p, name, def, "a positive time with its unit, such as 5s", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err == nil && d <= 0 {
			err = strconv.ErrRange
		}
		return d, err
	})
}

// Int returns the value of a parameter, or def when it isn't there.
func (p *Params) Int(name string, def int) int {
	return param(p, name, def, "a whole number", strconv.Atoi)
}

// Bool returns the value of a parameter (true or false, 1 or 0), or def when it isn't there.
func (p *Params) Bool(name string, def bool) bool {
	return param(p, name, def, "true or false", strconv.ParseBool)
}

// Err returns the first mistake: a value that can't be parsed, a parameter that was given twice, or one that nobody
// asked for. Call it after all others, before any I/O.
func (p *Params) Err() error {
	var unknown []string
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	slices.Sort(p.known)
	switch {
	case len(unknown) == 0:
	case p.torn || slices.ContainsFunc(unknown, p.isUnusual):
		p.fail("unknown parameter; are all special characters in user and password escaped?")
	case len(p.known) == 0:
		p.fail("unknown parameter %s; there are none here", quoted(unknown))
	default:
		p.fail("unknown parameter %s (known: %s)", quoted(unknown), strings.Join(p.known, ", "))
	}
	return p.err
}

// isUnusual reports whether name has characters that no backend's parameters have, and isn't a known one in capitals.
// Such a name is not printed: when a password has a "?" that isn't escaped, the rest of the password looks like a
// parameter.
func (p *Params) isUnusual(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" && !slices.Contains(p.known, strings.ToLower(name))
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(name)
	}
	return strings.Join(list, ", ")
}

func (p *Params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: URL: "+format, append([]any{locker.ErrOption}, args...)...)
	}
}

func param[T any](p *Params, name string, def T, want string, parse func(string) (T, error)) T {
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
		p.fail("parameter %q is invalid: want %s", name, want)
	default:
		return v
	}
	return def
}
