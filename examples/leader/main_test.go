package main

func Example() {
	main()
	// Unordered output:
	// the term was lost
	// a new term has begun: true
}
