package observe_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// Expvar publishes the statistics at /debug/vars, with those of the Go runtime.
func ExampleExpvar() {
	l := membackend.New()
	defer l.Close()
	observe.Expvar("locks of the example", l)

	lease, err := locker.TryAcquire(context.Background(), l, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())

	var stats locker.Stats
	if err := json.Unmarshal([]byte(expvar.Get("locks of the example").String()), &stats); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Held, stats.Granted)
	// Output: 1 1
}
