//go:build unix

package itest

import "testing"

// TestSkewed builds the program with the wrong clock. make test runs it before all tests with
// servers, which then find the program in the build cache.
func TestSkewed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the standard library")
	}
	if skewed.once.Do(buildSkewed); skewed.err != nil {
		t.Fatal(skewed.err)
	}
}
