package conformance

import "github.com/fencedlock/locker/conformance/step"

// T is the part of [testing.TB] that cases use. A *testing.T is a T. So is the recorder of
// [Evaluate], which needs no test binary.
type T = step.T
