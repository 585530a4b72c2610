package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker/fence"
)

// A StaleError has the token that was higher, for a log.
func ExampleStaleError() {
	ctx := context.Background()
	var guard fence.Memory
	fmt.Println(guard.Claim(ctx, "account", 34))

	err := guard.Claim(ctx, "account", 33)
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println(stale.Resource, stale.Token, stale.Highest)
	}
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// account 33 34
	// true
}
