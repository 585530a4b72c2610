package main

func Example() {
	main()
	// Output:
	// page 1
	// page 2
	// page 3
}
