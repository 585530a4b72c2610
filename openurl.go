package locker

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// parseURL parses the URL of a locker. It drops white space around the URL: a secret that was written with echo
// ends in a line break. The error names the mistake and never repeats a part of the URL, which may be a part of
// a password.
func parseURL(rawURL string) (*url.URL, error) {
	rawURL = strings.TrimSpace(rawURL)
	if rawURL == "" {
		return nil, wrongURL("it is empty")
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil && !hasScheme(rawURL):
		return nil, unknownScheme(rawURL, "")
	case err != nil:
		return nil, wrongURL(mistake(rawURL, err))
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, port, ok := cutPort(host); ok && aboveMaxPort(port) {
			return nil, wrongURL("a port is at most 65535")
		}
	}
	return u, nil
}

func wrongURL(what string) error { return fmt.Errorf("%w: URL: %s", ErrOption, what) }

// hasScheme tells whether a URL that can't be parsed begins with a scheme, as far as "://" shows.
func hasScheme(rawURL string) bool {
	scheme, _, found := strings.Cut(rawURL, "://")
	return found && scheme != "" && strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}

// mistake says in words what is wrong with a URL that can't be parsed. The error of package url quotes it.
func mistake(rawURL string, err error) string {
	var (
		escape url.EscapeError
		host   url.InvalidHostError
	)
	switch {
	case strings.ContainsFunc(rawURL, unicode.IsControl):
		return "it has a line break or another control character inside"
	case errors.As(err, &escape):
		return "a % is not followed by two hexadecimal digits; % itself is written %25"
	case errors.As(err, &host):
		return "a host has a character that no host can have"
	}
	_, authority, _ := strings.Cut(rawURL, "://")
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	at := strings.LastIndex(authority, "@")
	hosts := strings.Split(authority[at+1:], ",")
	_, port, found := cutPort(hosts[len(hosts)-1])
	others := slices.ContainsFunc(hosts, func(h string) bool {
		_, _, found := cutPort(h)
		return found
	})
	switch {
	case strings.Contains(authority, "["): // an address of IPv6 has colons of its own
	case others && !found:
		return "of several hosts, the last one needs a port if another one has one, as in etcd://a:2379,b:2379"
	case found && strings.Trim(port, "0123456789") != "":
		return "a port is not a number; or user or password have a special character that isn't escaped, such as / ? # or @"
	}
	return "it can't be parsed; are all special characters in user, password and path escaped?"
}

// cutPort cuts HOST:PORT; IPv6 addresses are in brackets.
func cutPort(host string) (name, port string, found bool) {
	i := strings.LastIndex(host, ":")
	if i < strings.LastIndex(host, "]") || i < 0 {
		return host, "", false
	}
	return host[:i], host[i+1:], true
}

func aboveMaxPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return errors.Is(err, strconv.ErrRange)
}
