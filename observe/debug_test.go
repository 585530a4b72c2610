package observe_test

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// opaque hides from package locker what is below it.
type opaque struct{ locker.Locker }

// shownLease is a lease in the JSON.
type shownLease struct {
	Name   string
	State  string
	Token  locker.Token
	Holder string
}

// opened is a Locker with one lease, one waiter that was refused, and one release.
func opened(t *testing.T) locker.Locker {
	t.Helper()
	l := membackend.New()
	t.Cleanup(func() { _ = l.Close() })
	if _, err := l.Acquire(t.Context(), "invoices/42"); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "invoices/42"); err == nil {
		t.Fatal("the lock was granted twice")
	}
	if err := locker.Do(t.Context(), l, "other", nothing); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDebug(t *testing.T) {
	handler := observe.Debug(map[string]locker.Locker{"jobs": opened(t), "a box": opaque{membackend.New()}})
	get := func(url, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", url, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	page := get("/debug/locks", "text/html,*/*")
	if kind := page.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Errorf("the page is %q", kind)
	}
	rest := page.Body.String()
	for _, want := range []string{
		"a box on mem\n", "doesn't say what it does", "jobs on mem\n", "held", "1", "granted", "2", "refused", "1", "held 1",
		"released", "1", "state", "held", `"invoices/42"`,
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("the page lacks %q after what comes before it:\n%s", want, page.Body)
		}
		rest = after
	}
	for _, r := range []*httptest.ResponseRecorder{get("/debug/locks?format=json", "*/*"), get("/debug/locks", "application/json")} {
		var got map[string]struct {
			Backend string
			Stats   *locker.Stats
			Leases  []shownLease
		}
		if err := json.Unmarshal(r.Body.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, r.Body)
		}
		jobs := got["jobs"]
		if jobs.Backend != "mem" || jobs.Stats == nil || jobs.Stats.Refused["held"] != 1 || got["a box"].Stats != nil {
			t.Errorf("the JSON is %s", r.Body)
		}
		jobs.Leases = slices.DeleteFunc(jobs.Leases, func(l shownLease) bool { return l.State == "removing" }) // of the one that was refused
		if len(jobs.Leases) != 1 || jobs.Leases[0].Name != "invoices/42" || jobs.Leases[0].State != "held" || jobs.Leases[0].Token == 0 {
			t.Errorf("the leases are %+v", jobs.Leases)
		}
	}
}

func TestExpvar(t *testing.T) {
	name := fmt.Sprintf("TestExpvar %p", t) // another one in each run
	observe.Expvar(name, opened(t))
	observe.Expvar(name+" opaque", opaque{membackend.New()})
	var s locker.Stats
	if err := json.Unmarshal([]byte(expvar.Get(name).String()), &s); err != nil || s.Held != 1 || s.Granted != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := expvar.Get(name + " opaque").String(); got != "null" {
		t.Errorf("a locker that doesn't say what it does: %s, want null", got)
	}
}
