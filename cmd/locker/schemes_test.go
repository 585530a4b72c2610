package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/schemes"
)

// A program that has forgotten an import is told the package, whatever the scheme.
func TestPackagesOfSchemes(t *testing.T) {
	ofTests := []string{"cut", "lonely", "taken"}
	for _, scheme := range locker.Schemes() {
		if slices.Contains(ofTests, scheme) {
			continue
		}
		if pkg := schemes.Package(scheme); pkg == "" {
			t.Errorf("%s has no package", scheme)
		} else if _, err := os.Stat(filepath.Join("../..", filepath.Base(pkg))); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	if got := schemes.Package("zk"); got != "github.com/fencedlock/locker/zkbackend" {
		t.Errorf("the package of zk is %q", got)
	}
	if got := schemes.Package("nosuch"); got != "" {
		t.Errorf("the package of an unknown scheme is %q", got)
	}
}
