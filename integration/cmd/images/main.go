// Images provides the images whose names are its arguments, or all that make test needs, and prints
// each name with its reference in Docker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/fencedlock/locker/integration/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	names := os.Args[1:]
	if len(names) == 0 {
		for _, i := range images.All {
			if !i.Soak {
				names = append(names, i.Name)
			}
		}
	}
	for _, name := range names {
		found, err := images.Find(ctx, name, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(name, found.Ref)
	}
}
