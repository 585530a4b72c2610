// The program prints its wall clock, in seconds since 1970, and then how long 50 ms took by time.Since.
package main

import (
	"fmt"
	"time"
)

func main() {
	begin := time.Now()
	<-time.After(50 * time.Millisecond)
	fmt.Println(begin.Unix(), time.Since(begin).Milliseconds())
}
