package main

func Example() {
	main()
	// Unordered output:
	// lost the lead
	// a new term has begun: true
}
