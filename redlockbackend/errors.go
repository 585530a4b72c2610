package redlockbackend

import (
	"errors"
	"fmt"

	"github.com/fencedlock/locker"
)

var (
	errExpired = fmt.Errorf("%w: a majority of the servers don't have it any more", locker.ErrLost)
	errBuried  = errors.New("the server has it as released already")
)
