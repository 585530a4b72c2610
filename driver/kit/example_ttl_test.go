package kit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// A service that counts in seconds gets a TTL that is rounded up, and so does the Grant.
func ExampleTTLBounds() {
	bounds := kit.TTLBounds{Min: 2 * time.Second, Max: 5 * time.Minute, Unit: time.Second}
	fmt.Println(bounds.RoundUp(2500 * time.Millisecond))
	fmt.Println(errors.Is(bounds.Check(time.Second), locker.ErrOption))
	// Output:
	// 3s
	// true
}
