package main

func Example() {
	main()
	// Output:
	// the second holder has written: 120
	// the first holder's late write: refused: a holder with a larger token was here
	// balance: 120
}
