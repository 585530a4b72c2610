package redisbackend

import (
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

var (
	errExpired = fmt.Errorf("%w: the service was told to remove it, or its TTL has passed there", locker.ErrLost)
	errOlder   = fmt.Errorf("%w: the service has gone back to older data", locker.ErrLost)
	errBuried  = errors.New("the service has it as released already")
)
