package locker

import (
	"net/url"
	"strconv"
)

// common has the parameters of a URL that are the same on all backends.
type common struct {
	base   Token
	holder string // empty: there is none
}

// takeCommon removes those parameters from a URL, and returns their values. With an error it returns the URL as
// it is.
func takeCommon(u *url.URL) (*url.URL, common, error) {
	var c common
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return u, c, wrongURL("the parameters can't be parsed; are their special characters escaped?")
	}
	before := len(query)
	if values := query["token_base"]; values != nil {
		base, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || len(values) > 1 {
			return u, c, wrongURL("token_base: want one whole number, such as 1000000")
		}
		if wrong := wrongBase(Token(base)); wrong != "" {
			return u, c, wrongURL("token_base: " + wrong)
		}
		c.base = Token(base)
		query.Del("token_base")
	}
	if values := query["holder"]; values != nil {
		c.holder = values[0]
		if len(values) > 1 {
			return u, c, wrongURL("holder: want it once")
		}
		if wrong := wrongHolder(c.holder); wrong != "" {
			return u, c, wrongURL("holder: " + wrong)
		}
		query.Del("holder")
	}
	if len(query) == before {
		return u, c, nil
	}
	rest := *u
	rest.RawQuery = query.Encode()
	return &rest, c, nil
}

// apply returns l with the decorators that the parameters ask for.
func (c common) apply(l Locker) (Locker, error) {
	if c.holder != "" {
		l = labelled{l, c.holder}
	}
	if c.base != 0 {
		return TokenBase(l, c.base)
	}
	return l, nil
}
