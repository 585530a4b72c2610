package step

import (
	"context"
	"testing"
)

// T is the part of [testing.TB] that cases use. A *testing.T is a T. So is the recorder of
// conformance.Evaluate, which needs no test binary.
type T interface {
	Name() string
	Helper()
	Context() context.Context // ends before the functions of Cleanup run
	Cleanup(func())
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

var _ T = (*testing.T)(nil)
