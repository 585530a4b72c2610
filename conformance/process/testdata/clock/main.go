// The program prints its wall clock, in seconds since 1970, and then how long 50 ms took by time.Since. Its argument is
// a variable of its environment, NAME=VALUE, which it sets after it has read the clock for the first time.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	begin := time.Now()
	name, value, _ := strings.Cut(os.Args[1], "=")
	if err := os.Setenv(name, value); err != nil {
		panic(err)
	}
	<-time.After(50 * time.Millisecond)
	fmt.Println(begin.Unix(), time.Since(begin).Milliseconds(), time.Now().Unix())
}
