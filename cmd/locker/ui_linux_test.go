package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestUI(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "ui", "--listen", "127.0.0.1:0", "--every", "100ms")
	line := next(t, p.errOut)
	url, ok := strings.CutPrefix(line, "locker: the locks of file are on ")
	if !ok || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("the first line is %q, want the address", line)
	}
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	get := func(path string) string {
		t.Helper()
		answer, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := get("api/locks"); got != "[]" {
		t.Errorf("before a lock is held the list is %s", got)
	}
	_, release := hold(t, env)
	for path, part := range map[string]string{"api/lock?name=x": `"holder":{`, "": "page.js"} {
		if got := get(path); !strings.Contains(got, part) {
			t.Errorf("/%s is %s, want %s in it", path, got, part)
		}
	}
	for end := time.Now().Add(patience); !strings.Contains(get("api/locks"), `"name":"x"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a lock that is held doesn't come into the list")
		}
	}
	release()
	for end := time.Now().Add(patience); get("api/locks") != "[]"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a lock that was given back stays in the list")
		}
	}
	events, err := client.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	p.signal(t, syscall.SIGTERM) // a page that is open doesn't keep it
	p.wantCode(t, exitSignal+int(syscall.SIGTERM))
	want(t, p.errOut, "locker: interrupted")
}

func TestUIOnAnAddressInUse(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "ui", "--listen", "127.0.0.1:0")
	_, address, _ := strings.Cut(next(t, p.errOut), "http://")
	code, _, stderr := runToEnd(t, env, "ui", "--listen", strings.TrimSuffix(address, "/"))
	if code != exitUsage || !strings.Contains(stderr, "--listen: ") || !strings.Contains(stderr, "address already in use") {
		t.Errorf("code %d, stderr %q, want %d and why", code, stderr, exitUsage)
	}
}
