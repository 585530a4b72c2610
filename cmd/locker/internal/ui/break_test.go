package ui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// breaker keeps what it is asked for.
type breaker struct {
	mu        sync.Mutex
	questions []Request
	breaks    []Request
	err       error
}

func (b *breaker) Question(_ context.Context, r Request) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions = append(b.questions, r)
	return "Take it away?", b.err
}

func (b *breaker) Break(ctx context.Context, r Request) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaks = append(b.breaks, r)
	if ctx.Done() != nil {
		return "", errors.New("the context ends with the browser")
	}
	return "marked", b.err
}

const someBody = `{"name":"a","slot":3,"token":"9007199254740993","reason":"hangs","at_once":true}`

var someRequest = Request{Name: "a", Slot: 3, Token: "9007199254740993", Reason: "hangs", AtOnce: true}

func serveBreaks(t *testing.T, change func(*Config)) (*httptest.Server, *breaker) {
	t.Helper()
	b := &breaker{}
	return serve(t, &service{}, func(c *Config) {
		c.Token, c.Breaker = secret, b
		c.Hosts = []string{"127.0.0.1"}
		if change != nil {
			change(c)
		}
	}), b
}

// send is a request as the page sends it, but for what change does.
func send(t *testing.T, server *httptest.Server, body string, change func(*http.Request)) answer {
	t.Helper()
	return get(t, server, "/api/break", func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", server.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if change != nil {
			change(r)
		}
	})
}

func TestBreak(t *testing.T) {
	server, b := serveBreaks(t, nil)
	if got := send(t, server, someBody, nil); got.code != 200 || got.text != `{"done":"marked"}` {
		t.Errorf("POST: %d, %q", got.code, got.text)
	}
	if len(b.breaks) != 1 || b.breaks[0] != someRequest {
		t.Errorf("the breaker was asked for %+v, want %+v once", b.breaks, someRequest)
	}
	if got := get(t, server, "/api/info", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }); !strings.Contains(got.text, `"breaks":true`) {
		t.Errorf("the page is told %q", got.text)
	}
}

// Whatever else is sent, nothing is taken away.
func TestBreakIsRefused(t *testing.T) {
	server, b := serveBreaks(t, nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	method := func(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }
	for what, test := range map[string]struct {
		body   string
		change func(*http.Request)
		code   int
	}{
		"no token":            {someBody, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"a wrong token":       {someBody, header("Authorization", "Bearer wrong"), 401},
		"another site":        {someBody, header("Sec-Fetch-Site", "cross-site"), 403},
		"a site next to it":   {someBody, header("Sec-Fetch-Site", "same-site"), 403},
		"another origin":      {someBody, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "https://evil.example") }, 403},
		"another port":        {someBody, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		"another host":        {someBody, func(r *http.Request) { r.Host = "evil.example" }, 421},
		"a form":              {"name=a&token=7&reason=x", header("Content-Type", "application/x-www-form-urlencoded"), 415},
		"plain text":          {someBody, header("Content-Type", "text/plain"), 415},
		"no type":             {someBody, func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		"no JSON":             {"token", nil, 400},
		"nothing":             {"", nil, 400},
		"a token as a number": {`{"name":"a","token":7,"reason":"x"}`, nil, 400},
		"an unknown word":     {`{"name":"a","token":"7","reason":"x","safe":true}`, nil, 400},
		"a long body":         {`{"name":"` + strings.Repeat("a", maxRequest) + `","token":"7","reason":"x"}`, nil, 400},
		"GET":                 {someBody, method(http.MethodGet), 400},
		"HEAD":                {someBody, method(http.MethodHead), 400},
		"PUT":                 {someBody, method(http.MethodPut), 405},
		"DELETE":              {someBody, method(http.MethodDelete), 405},
		"OPTIONS":             {someBody, method(http.MethodOptions), 405},
	} {
		if got := send(t, server, test.body, test.change); got.code != test.code {
			t.Errorf("%s: %d, %q, want %d", what, got.code, got.text, test.code)
		}
	}
	authorized := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
	for _, path := range []string{"/api/break?name=a&slot=3&token=7&reason=x&at_once=true", "/api/lock?name=a&token=7&reason=x"} {
		if got := get(t, server, path, authorized); got.code != 200 {
			t.Errorf("GET %s: %d, %q", path, got.code, got.text)
		}
	}
	if len(b.breaks) != 0 {
		t.Errorf("taken away: %+v", b.breaks)
	}
	if want := (Request{Name: "a", Slot: 3, Token: "7", AtOnce: true}); len(b.questions) != 1 || b.questions[0] != want {
		t.Errorf("GET asks %+v, want %+v once", b.questions, want)
	}
}

func TestBreakIsNotAllowed(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"without a breaker": func(c *Config) { c.Breaker = nil },
		"without a token":   func(c *Config) { c.Token = "" },
	} {
		server, b := serveBreaks(t, change)
		if got := send(t, server, someBody, nil); got.code != http.StatusForbidden || !strings.Contains(got.text, "--allow-break") {
			t.Errorf("%s, POST: %d, %q, want %d", what, got.code, got.text, http.StatusForbidden)
		}
		info := get(t, server, "/api/info", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) })
		if len(b.breaks) != 0 || !strings.Contains(info.text, `"breaks":false`) {
			t.Errorf("%s: taken away %+v, and the page is told %q", what, b.breaks, info.text)
		}
	}
}

func TestFailuresOfABreak(t *testing.T) {
	server, b := serveBreaks(t, nil)
	for code, err := range map[int]error{
		http.StatusConflict:   &Refusal{http.StatusConflict, errors.New("held with another token")},
		http.StatusBadGateway: errors.New("no answer"),
	} {
		b.err = err
		question := get(t, server, "/api/break?name=a&slot=0&token=7", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) })
		for _, got := range []answer{question, send(t, server, someBody, nil)} {
			if got.code != code || strings.TrimSpace(got.text) != err.Error() {
				t.Errorf("%v: %d, %q, want %d", err, got.code, got.text, code)
			}
		}
	}
}
