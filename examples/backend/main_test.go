package main

func Example() {
	main()
	// Output:
	// a second holder is kept out: true
	// <nil>
}
