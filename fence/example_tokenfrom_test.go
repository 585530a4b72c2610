package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/membackend"
)

// TokenFrom is for a storage that has no package here. Where locks are nested, it takes the token of
// the lease that has the name of the resource.
func ExampleTokenFrom() {
	l := membackend.New()
	defer l.Close()

	err := locker.Do(context.Background(), l, "customers/7", func(ctx context.Context, customer locker.Lease) error {
		return locker.Do(ctx, l, "invoices/42", func(ctx context.Context, invoice locker.Lease) error {
			token, err := fence.TokenFrom(ctx, "customers/7")
			fmt.Println(token == customer.Token(), err)

			_, err = fence.TokenFrom(ctx, "stock/7") // neither lease guards it
			fmt.Println(errors.Is(err, fence.ErrAmbiguousLease))
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// true <nil>
	// true
	// <nil>
}
