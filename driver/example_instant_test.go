package driver_test

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker/driver"
)

// The Base of a grant is a Stamp from before the request. The lease is trusted for less than TTL
// from then on, however long the answer took.
func ExampleStamp() {
	sent := driver.Stamp()
	answer := driver.Now() // after a request
	expires := sent.Add(30 * time.Second)
	fmt.Println(answer.Sub(sent) >= 0, expires.Sub(answer) <= 30*time.Second)
	// Output: true true
}
