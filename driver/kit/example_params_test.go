package kit_test

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// An Opener reads its parameters, and then asks for mistakes, before any I/O. A parameter that it
// hasn't asked for is misspelt.
func ExampleParams() {
	read := func(raw string) (prefix string, ttl time.Duration, err error) {
		u, err := url.Parse(raw)
		if err != nil {
			return "", 0, err
		}
		p := kit.NewParams(u)
		prefix, ttl = p.String("prefix", "locker:"), p.Duration("ttl", 30*time.Second)
		return prefix, ttl, p.Err()
	}

	fmt.Println(read("example://store.example?ttl=10s"))
	_, _, err := read("example://store.example?tll=10s")
	fmt.Println(errors.Is(err, locker.ErrOption))
	_, _, err = read("example://store.example?ttl=10")
	fmt.Println(errors.Is(err, locker.ErrOption))
	// Output:
	// locker: 10s <nil>
	// true
	// true
}
