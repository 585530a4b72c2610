// Holder is a holder of locks in a process of its own, for the cases in which its clock is wrong:
// itest.StartSkewed builds it. It opens a Locker by the URL in LOCKER_URL and serves the suite.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"

	_ "github.com/fencedlock/locker/etcdbackend"
	_ "github.com/fencedlock/locker/pgbackend"
	_ "github.com/fencedlock/locker/redisbackend"
	_ "github.com/fencedlock/locker/redlockbackend"
	_ "github.com/fencedlock/locker/zkbackend"
)

func main() {
	l, err := locker.Open(context.Background(), os.Getenv("LOCKER_URL"))
	if err == nil {
		err = process.Serve(l, os.Stdin, os.Stdout)
		_ = l.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
}
