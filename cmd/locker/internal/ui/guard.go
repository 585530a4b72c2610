package ui

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// guarded refuses requests for another host, and has browsers keep the page to itself. A site whose
// name is made to point to this address (DNS rebinding) would otherwise read the locks by its
// visitors' browsers.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Hosts != nil && !slices.Contains(s.Hosts, hostname(r.Host)) {
			http.Error(w, "the locks are not shown under this host name", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// hostname is the Host of a request without its port.
func hostname(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.ToLower(name)
}

// own refuses requests that the pages of other sites make, also those that change nothing: they would have the service
// asked again and again. A program and an address that somebody types send no such header, or "none". "same-site" is
// the page of another port or host name.
func own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "the locks are not shown to other sites", http.StatusForbidden)
		}
	})
}

// authorized refuses requests without the token.
func (s *server) authorized(next http.HandlerFunc) http.Handler {
	if s.Token == "" {
		return next
	}
	want := sha256.Sum256([]byte(s.Token)) // of equal length, whatever is sent
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(token))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}
