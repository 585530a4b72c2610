package observe_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// A page for operators, next to those of net/http/pprof and expvar. It shows names of locks, so it
// belongs on a port that only operators reach.
func ExampleDebug() {
	l := membackend.New()
	defer l.Close()
	if _, err := l.Acquire(context.Background(), "nightly-report"); err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/debug/locks", observe.Debug(map[string]locker.Locker{"jobs": l}))

	page := httptest.NewRecorder() // instead of http.ListenAndServe
	mux.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/debug/locks", nil))
	fmt.Println(page.Code, strings.Contains(page.Body.String(), "nightly-report"))
	// Output: 200 true
}
