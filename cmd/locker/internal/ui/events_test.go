package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sent is what an event says.
type sent struct {
	Locks, Added, Changed []struct {
		Key     string
		Waiting int
	}
	Removed []string
	Note    string
	Error   string
}

// eventsIn returns what reads the next event of an answer.
func eventsIn(t *testing.T, body io.Reader) func() (kind string, m sent) {
	lines := bufio.NewScanner(body)
	return func() (kind string, m sent) {
		t.Helper()
		for lines.Scan() {
			line := lines.Text()
			if line == "" {
				return kind, m
			}
			if text, ok := strings.CutPrefix(line, "event: "); ok {
				kind = text
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				if err := json.Unmarshal([]byte(text), &m); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Fatal("the events have ended: ", lines.Err())
		return kind, m
	}
}

func TestEvents(t *testing.T) {
	s := &service{}
	s.set("a", `{"key":"a","waiting":0}`)
	server := serve(t, s, nil)
	response, err := server.Client().Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read := eventsIn(t, response.Body)
	if kind, m := read(); kind != "snapshot" || len(m.Locks) != 1 || m.Locks[0].Key != "a" {
		t.Errorf("the first event is %s, %+v, want a snapshot with one lock", kind, m)
	}
	s.set("a", `{"key":"a","waiting":2}`)
	s.set("b", `{"key":"b"}`)
	for added, changed := false, false; !added || !changed; {
		kind, m := read()
		if kind != "change" {
			t.Fatalf("event %s, want change", kind)
		}
		added = added || len(m.Added) == 1 && m.Added[0].Key == "b"
		changed = changed || len(m.Changed) == 1 && m.Changed[0].Waiting == 2
	}
	s.set("b", "")
	for removed := false; !removed; {
		_, m := read()
		removed = len(m.Removed) == 1 && m.Removed[0] == "b"
	}
	s.leaveOut("one lock")
	for noted := false; !noted; {
		_, m := read()
		noted = m.Note == "one lock"
	}
	s.fail(errors.New("no answer"))
	for failed := false; !failed; {
		_, m := read()
		failed = m.Error == "no answer"
	}
}

// pipes is a network of this process.
type pipes struct {
	conns chan net.Conn
	ended context.Context
	stop  context.CancelFunc
}

func newPipes() pipes {
	ended, stop := context.WithCancel(context.Background())
	return pipes{make(chan net.Conn), ended, stop}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { p.stop(); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// With TLS browsers speak HTTP/2, in which a deadline that is over ends the stream, also if nothing
// is written at that time.
func TestEventsOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		s.set("a", `{"key":"a","waiting":0}`)
		c := configOf(&s)
		c.Every = 3 * writeLimit
		network := newPipes()
		server := &httptest.Server{Listener: network, EnableHTTP2: true, Config: &http.Server{Handler: Handler(c)}}
		server.StartTLS()
		defer server.Close()
		defer server.CloseClientConnections()
		transport := server.Client().Transport.(*http.Transport)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			browser, conn := net.Pipe()
			network.conns <- conn
			return browser, nil
		}
		defer transport.CloseIdleConnections()
		response, err := server.Client().Get("https://example.com/events")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			t.Fatalf("the answer comes with %s, want HTTP/2", response.Proto)
		}
		read := eventsIn(t, response.Body)
		if kind, _ := read(); kind != "snapshot" {
			t.Fatalf("the first event is %s, want snapshot", kind)
		}
		for waiting := 1; waiting < 3; waiting++ {
			s.set("a", `{"key":"a","waiting":`+string(rune('0'+waiting))+`}`)
			began := time.Now()
			kind, m := read()
			if kind != "change" || len(m.Changed) != 1 || m.Changed[0].Waiting != waiting || time.Since(began) < c.Every {
				t.Errorf("after %v the event is %s, %+v, want the change after %v", time.Since(began), kind, m, c.Every)
			}
		}
	})
}
