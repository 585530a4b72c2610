package conformance_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
)

// A harness whose hook Linked opens Lockers that dial through a proxy. So the suite can cut the
// network, delay requests and drop replies, and find the commonest mistake of all: a deadline that
// counts from the reply. The service counts the TTL from the request, so such a holder believes in
// its lease for too long.
func ExampleHarness_proxy() {
	server, err := startLockServer() // a lock service that is reached by TCP
	if err != nil {
		fmt.Println(err)
		return
	}
	h := conformance.Harness{TTL: time.Second}
	h.Open = func(conformance.T) locker.Locker {
		return server.open(new(net.Dialer).DialContext, noMistake)
	}
	h.Linked = func(t conformance.T) (locker.Locker, conformance.Link) {
		network := proxy.Start(t)
		return server.open(network.Dial, noMistake), network
	}

	// A test calls conformance.Run(t, h), which runs all cases. This runs one of them outside of a
	// test.
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return c.ID != "F48.1" })
	err = conformance.Evaluate(context.Background(), h, cases, func(r conformance.Result) {
		fmt.Println(r.Case, r.Verdict)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: F48.1-deadline-counts-from-the-request passed
}
