//go:build !(linux || darwin || freebsd || openbsd || dragonfly)

package filebackend

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const (
	waiting    = locker.WaitingPolled
	inspection = locker.InspectionNone
)

func newLocker(string, driver.Config) (locker.Locker, error) {
	return nil, fmt.Errorf("%w on %s: file locks need flock(2), and network file systems must be recognised",
		errors.ErrUnsupported, runtime.GOOS)
}
