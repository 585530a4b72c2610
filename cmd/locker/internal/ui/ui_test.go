package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a token of the tests"

// configOf is a page of s.
func configOf(s *service) Config {
	return Config{Backend: "fake", Prefix: "in/", Every: 10 * time.Millisecond, List: s.list, Inspect: func(_ context.Context, name string, slot int) (json.RawMessage, bool, error) {
		switch name {
		case "":
			return nil, false, errors.New("invalid lock name: empty")
		case "down":
			return nil, true, errors.New("no answer")
		}
		if slot != 0 {
			return json.RawMessage(fmt.Sprintf(`{"slot":%d}`, slot)), true, nil
		}
		return json.RawMessage(`{"name":"` + name + `"}`), true, nil
	}}
}

// serve starts a page of s. The client has no connections left at the end.
func serve(t *testing.T, s *service, change func(*Config)) *httptest.Server {
	t.Helper()
	c := configOf(s)
	if change != nil {
		change(&c)
	}
	server := httptest.NewServer(Handler(c))
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	return server
}

// answer is an answer that was read to its end.
type answer struct {
	code   int
	header http.Header
	text   string
}

func get(t *testing.T, server *httptest.Server, path string, change func(*http.Request)) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func TestAnswers(t *testing.T) {
	s := &service{}
	s.set("a", `{"key":"a"}`)
	server := serve(t, s, nil)
	for _, test := range []struct {
		path string
		code int
		kind string
		want string
	}{
		{"/", 200, "text/html", "page.js"},
		{"/page.js", 200, "text/javascript", "textContent"},
		{"/words.js", 200, "text/javascript", "export"},
		{"/break.js", 200, "text/javascript", "export"},
		{"/page.css", 200, "text/css", "table"},
		{"/other", 404, "text/plain", ""},
		{"/api/info", 200, "application/json", `{"backend":"fake","prefix":"in/","breaks":false}`},
		{"/api/locks", 200, "application/json", `[{"key":"a"}]`},
		{"/api/lock?name=..%2F%7B%26", 200, "application/json", `{"name":"../{\u0026"}`},
		{"/api/lock?name=a&slot=-1", 200, "application/json", `{"slot":-1}`},
		{"/api/lock?name=a&slot=x", 400, "text/plain", "slot is invalid"},
		{"/api/lock", 400, "text/plain", "empty"},
		{"/api/lock?name=down", 502, "text/plain", "no answer"},
	} {
		got := get(t, server, test.path, nil)
		if kind := got.header.Get("Content-Type"); got.code != test.code || !strings.HasPrefix(kind, test.kind) || !strings.Contains(got.text, test.want) {
			t.Errorf("%s: %d, %s, %q, want %d, %s, %q", test.path, got.code, kind, got.text, test.code, test.kind, test.want)
		}
	}
	s.leaveOut("one lock")
	time.Sleep(2 * configOf(s).Every) // an answer may be as old as that
	if got := get(t, server, "/api/locks", nil); got.code != 200 || got.text != `[{"key":"a"}]` || got.header.Get("Locker-Note") != "one lock" {
		t.Errorf("a list that leaves a lock out: %d, %q, %v, want what is known and a note", got.code, got.text, got.header)
	}
	if got := get(t, server, "/api/locks", func(r *http.Request) { r.Method = http.MethodPost }); got.code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want it refused: nothing is changed here", got.code)
	}
}

// All that the page runs is its own: no script of another site, and nothing inside the page.
func TestPolicy(t *testing.T) {
	server := serve(t, &service{}, nil)
	policy := get(t, server, "/", nil).header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	for _, inline := range []string{"<script>", "style=", "onclick", "http:", "https:"} {
		if strings.Contains(string(pageHTML), inline) {
			t.Errorf("the page contains %q", inline)
		}
	}
	for _, writes := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if strings.Contains(string(pageJS)+string(wordsJS)+string(breakJS), writes) {
			t.Errorf("the script has %s, which can turn a lock's name into a part of the page", writes)
		}
	}
}

func TestOtherHostsAreRefused(t *testing.T) {
	server := serve(t, &service{}, func(c *Config) { c.Hosts = []string{"localhost", "127.0.0.1", "::1"} })
	for host, code := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:8321": 200, "[::1]": 200, "127.0.0.1:1": 200,
		"evil.example": 421, "localhost.evil.example:8321": 421, "127.0.0.1.evil.example": 421,
	} {
		for _, path := range []string{"/", "/api/locks", "/api/lock?name=a"} {
			got := get(t, server, path, func(r *http.Request) {
				if host != "" {
					r.Host = host
				}
			})
			if got.code != code {
				t.Errorf("%s of host %q: %d, want %d", path, host, got.code, code)
			}
		}
	}
}

// The pages of other sites can't have the service asked, though they could not read the answer. A link to the page works.
func TestOtherSitesAreRefused(t *testing.T) {
	s := &service{}
	server := serve(t, s, nil)
	server.Client().Timeout = 10 * time.Second // events that are sent have no end
	for site, code := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403, "other": 403} {
		for _, path := range []string{"/api/info", "/api/locks", "/api/lock?name=a"} {
			got := get(t, server, path, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) })
			if got.code != code {
				t.Errorf("%s from %q: %d, want %d", path, site, got.code, code)
			}
		}
	}
	looked := s.looked()
	for _, site := range []string{"same-site", "cross-site"} {
		fromThere := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }
		if got := get(t, server, "/", fromThere); got.code != 200 {
			t.Errorf("the page from %q: %d", site, got.code)
		}
		if got := get(t, server, "/events", fromThere); got.code != 403 {
			t.Errorf("the events from %q: %d, want 403", site, got.code)
		}
	}
	if n := s.looked(); n != looked {
		t.Errorf("the service was asked %d times for other sites", n-looked)
	}
}

func TestToken(t *testing.T) {
	server := serve(t, &service{}, func(c *Config) { c.Token = secret })
	for authorization, code := range map[string]int{
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer wrong": 401, "Basic " + secret: 401, "Bearer " + secret + "x": 401,
		"Bearer " + secret: 200, "bearer " + secret: 200,
	} {
		for path, free := range map[string]bool{"/": true, "/page.js": true, "/api/info": false, "/api/locks": false, "/api/lock?name=a": false} {
			want := code
			if free {
				want = 200
			}
			got := get(t, server, path, func(r *http.Request) {
				if authorization != "" {
					r.Header.Set("Authorization", authorization)
				}
			})
			if got.code != want {
				t.Errorf("%s with %q: %d, want %d", path, authorization, got.code, want)
			}
		}
	}
}
