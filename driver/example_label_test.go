package driver_test

import (
	"fmt"

	"github.com/fencedlock/locker/driver"
)

// What a service contains may be anything. A label that was read is always printable.
func ExampleParseLabel() {
	fmt.Printf("%q\n", driver.ParseLabel("1795221171926 web-7f9c/4711/reportd").Holder)
	fmt.Printf("%q\n", driver.ParseLabel("\x1b[2Jsomething else").Holder)
	// Output:
	// "web-7f9c/4711/reportd"
	// "�[2Jsomething else"
}
