package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium without a window, which runs scripts in one page. It is driven by Chromium's
// own protocol over two pipes: https://chromedevtools.github.io/devtools-protocol/.
type browser struct {
	out     *os.File
	answers chan json.RawMessage
	session string
	mu      sync.Mutex
	last    int
}

// openBrowser opens a page. Without a Chromium the test is skipped.
func openBrowser(t *testing.T, url string) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// It runs as any user, and in a container without the namespaces of its sandbox: it shows one
	// page of this test.
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{out: in, answers: make(chan json.RawMessage, 1000)}
	go b.read(out)
	t.Cleanup(func() {
		_, _ = fmt.Fprintf(in, `{"id":0,"method":"Browser.close"}`+"\x00") // its processes end with it
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		_, _ = in.Close(), out.Close()
	})
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	return b
}

func (b *browser) read(out *os.File) {
	defer close(b.answers)
	for reader := bufio.NewReader(out); ; {
		text, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		b.answers <- text[:len(text)-1]
	}
}

// call fails the test unless the browser does what is asked.
func (b *browser) call(t *testing.T, method string, params any, result any) {
	t.Helper()
	if err := b.try(t, method, params, result); err != nil {
		t.Fatal(err)
	}
}

// try sends a message, and reads up to its answer.
func (b *browser) try(t *testing.T, method string, params any, result any) error {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	message := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		t.Fatal(err)
	}
	late := time.After(patience)
	for {
		select {
		case text, more := <-b.answers:
			var answer struct {
				ID            int
				Result, Error json.RawMessage
			}
			if !more || json.Unmarshal(text, &answer) != nil {
				t.Fatalf("%s: the browser has ended, or says %q", method, text)
			}
			if answer.ID != b.last {
				continue
			}
			if answer.Error != nil {
				return fmt.Errorf("%s: %s", method, answer.Error)
			}
			return json.Unmarshal(answer.Result, result)
		case <-late:
			t.Fatalf("%s: the browser doesn't answer", method)
		}
	}
}

// script returns what an expression is in the page, as a text. While a page is being loaded that is
// an error.
func (b *browser) script(t *testing.T, expression string) string {
	t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	if err := b.try(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got); err != nil {
		return err.Error()
	}
	if got.ExceptionDetails != nil {
		return "exception: " + string(got.ExceptionDetails)
	}
	return fmt.Sprint(got.Result.Value)
}

// wait asks until an expression is a text. Pages draw when they like.
func (b *browser) wait(t *testing.T, expression, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = b.script(t, expression); got == want {
			return
		}
	}
	t.Fatalf("%s is %q, want %q", expression, got, want)
}
