package main

import "fmt"

func Example() {
	fmt.Println(show())
	// Output:
	// a second holder is kept out: true
	// <nil>
}
