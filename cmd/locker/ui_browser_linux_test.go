package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/ui"
	"github.com/fencedlock/locker/membackend"
)

const browserToken = "0123456789abcdef"

// writes are the lines of several goroutines.
type writes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// openPage opens the page of l in a browser.
func openPage(t *testing.T, l locker.Locker, allowBreak bool) (b *browser, audit *writes, url string) {
	t.Helper()
	audit = new(writes)
	o := uiOptions{listen: "127.0.0.1:0", every: 50 * time.Millisecond, tokenFile: "alice", allowBreak: allowBreak}
	server := httptest.NewServer(ui.Handler(o.page(l, "", browserToken, &auditLog{stderr: audit})))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // the events
	b = openBrowser(t, server.URL)
	b.wait(t, `document.querySelector("#login")?.hidden`, "false")
	b.script(t, `document.querySelector("#token").value = "`+browserToken+`"; document.querySelector("#login").requestSubmit()`)
	b.wait(t, `document.querySelector("#login").hidden`, "true")
	return b, audit, server.URL
}

const (
	rowsOf   = `[...document.querySelectorAll("#locks tbody tr")].map((r) => r.cells[0].textContent).join()`
	question = `document.querySelector("#question").textContent`
	reason   = `document.querySelector("#reason").value = "hangs, OPS-119"`
	takeIt   = `document.querySelector("#take").click()`
	isOpen   = `document.querySelector("#break").open`
	canTake  = `!document.querySelector("#take").disabled`
)

// ofRow clicks on the button of a lock.
func ofRow(name string) string {
	return `[...document.querySelectorAll("#locks tbody tr")].find((r) => r.cells[0].textContent === "` + name + `").querySelector("button.break").click()`
}

func TestPageInABrowser(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	hold := func(name string) locker.Lease {
		t.Helper()
		lease, err := l.Acquire(t.Context(), name, locker.WithHolder("<b>alice</b>"))
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	a, other := hold("a"), hold("b")
	b, audit, _ := openPage(t, l, true)
	b.wait(t, rowsOf, "a,b")
	b.wait(t, `document.querySelector("#state").textContent.startsWith("2 locks, 0 waiting")`, "true")

	// The page asks what locker break asks. The button waits for the question and for a reason.
	b.script(t, ofRow("a"))
	b.wait(t, canTake, "true")
	text := b.script(t, question)
	if !strings.HasPrefix(text, "a is held by <b>alice</b>, for ") || !strings.Contains(text, "accepts the token "+a.Token().String()+" until a larger one has claimed there.\nTake it away?") {
		t.Errorf("the question is %q", text)
	}
	b.script(t, takeIt) // without a reason
	b.wait(t, isOpen, "true")
	b.script(t, `document.querySelector("#at-once").click()`)
	b.wait(t, question+`.includes("There may be two holders")`, "true")
	b.script(t, `document.querySelector("#at-once").click()`)
	b.wait(t, question+`.includes("The holder finds its lease lost")`, "true")
	b.script(t, `document.querySelector("#leave").click()`)
	b.wait(t, isOpen, "false")
	if a.Err() != nil || audit.String() != "" {
		t.Fatalf("after questions the lease's Err is %v, and the audit %q", a.Err(), audit)
	}

	b.script(t, ofRow("a"))
	b.wait(t, canTake, "true")
	b.script(t, reason+";"+takeIt)
	b.wait(t, question+`.startsWith("marked: ")`, "true")
	var breach *locker.Breach
	if err := a.Err(); !errors.As(err, &breach) || breach.Reason != "hangs, OPS-119" || breach.AtOnce || other.Err() != nil {
		t.Errorf("the lease's Err is %v, and the other lease's Err %v", err, other.Err())
	}
	if !strings.Contains(audit.String(), `"name":"a","token":"`+a.Token().String()+`"`) {
		t.Errorf("the audit is %q", audit)
	}
	b.script(t, `document.querySelector("#leave").click()`)
	b.wait(t, rowsOf, "b")

	// The lock passes on while the question is shown.
	b.script(t, ofRow("b"))
	b.wait(t, canTake, "true")
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := hold("b")
	b.script(t, reason+";"+takeIt)
	b.wait(t, question+`.trim()`, "b is held with the token "+next.Token().String()+", and not with "+other.Token().String())
	if err := next.Err(); err != nil {
		t.Errorf("the Err of the next lease is %v", err)
	}
	b.script(t, `document.querySelector("#leave").click()`)

	permit, err := locker.AcquirePermit(t.Context(), l, "pool", 1)
	if err != nil {
		t.Fatal(err)
	}
	b.wait(t, rowsOf, "b,pool, permit 1")
	b.script(t, ofRow("pool, permit 1"))
	b.wait(t, canTake, "true")
	b.script(t, `document.querySelector("#at-once").click()`)
	b.wait(t, question+`.includes("two holders") && `+canTake, "true")
	b.script(t, reason+";"+takeIt)
	b.wait(t, question, "taken away: the lock has passed on")
	if err := permit.Err(); !errors.As(err, &breach) || breach.Slot != 1 || !breach.AtOnce {
		t.Errorf("the permit's Err is %v", err)
	}
}

func TestPageWithoutBreakInABrowser(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, _, _ := openPage(t, l, false)
	b.wait(t, rowsOf, "a")
	b.wait(t, `document.querySelectorAll("button.break").length + " " + document.querySelector("#breaks").hidden`, "0 true")
	b.wait(t, `document.querySelector("#state").textContent.startsWith("1 lock, 0 waiting")`, "true")
	post := `fetch("api/break", {method: "POST", headers: {Authorization: "Bearer ` + browserToken + `", "Content-Type": "application/json"},
		body: JSON.stringify({name: "a", token: "` + lease.Token().String() + `", reason: "x"})}).then((r) => r.status)`
	b.wait(t, post, "403")
	if err := lease.Err(); err != nil {
		t.Errorf("the lease has ended: %v", err)
	}
}

// A site that a browser also shows can't take a lock away, even if it knows the token.
func TestOtherSiteInABrowser(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, audit, url := openPage(t, l, true)
	evil := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("evil")) }))
	if evil.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	evil.Start()
	defer evil.Close()
	b.call(t, "Page.navigate", map[string]any{"url": evil.URL}, new(any))
	b.wait(t, `document.body?.textContent`, "evil")
	body := `JSON.stringify({name: "a", token: "` + lease.Token().String() + `", reason: "x", at_once: true})`
	for what, options := range map[string]string{
		"as the page": `headers: {Authorization: "Bearer ` + browserToken + `", "Content-Type": "application/json"}`,
		"as a form":   `mode: "no-cors", headers: {"Content-Type": "text/plain"}`,
	} {
		b.script(t, `fetch("`+url+`/api/break", {method: "POST", `+options+`, body: `+body+`}).catch((err) => err.message)`)
		if lease.Err() != nil || audit.String() != "" {
			t.Errorf("another site %s: the lease's Err is %v, and the audit %q", what, lease.Err(), audit)
		}
	}
}
