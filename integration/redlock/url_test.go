//go:build unix

package redlock

import (
	"context"
	"net/url"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// Changes of a URL.

func addParam(name, value string) func(*url.URL) {
	return func(u *url.URL) {
		query := u.Query()
		query.Add(name, value)
		u.RawQuery = query.Encode()
	}
}

func setParam(name, value string) func(*url.URL) {
	return func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	}
}

func setUser(name, password string) func(*url.URL) {
	return func(u *url.URL) { u.User = url.UserPassword(name, password) }
}

// serversURL is one with a URL for each server.
func serversURL(urls []string) string {
	query := url.Values{"server": urls, "ttl": {LongestTTL.String()}, "max_ttl": {LongestTTL.String()}}
	return "redlock://?" + query.Encode()
}

// refusedServers opens a Locker on servers with a URL for each, which must fail with an error that
// has all of words in it.
func refusedServers(t conformance.T, urls []string, words ...string) {
	t.Helper()
	l, err := locker.Open(t.Context(), serversURL(urls))
	if err == nil {
		_ = l.Close()
		t.Fatalf("Open = a Locker, want an error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Open = %v, want %q in it", err, word)
		}
	}
	if strings.Contains(err.Error(), redistest.Password) || strings.Contains(err.Error(), "open-sesame") {
		t.Errorf("the error shows a password: %v", err)
	}
}

// forget takes from servers what they remember under the prefix of a URL.
func (s *Service) forget(t conformance.T, rawURL string, nodes []*redistest.Node) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range nodes {
			if err := n.Admin.Del(ctx, u.Query().Get("prefix")+"memory").Err(); err != nil {
				return err
			}
		}
		return nil
	})
}
