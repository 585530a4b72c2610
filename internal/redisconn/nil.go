package redisconn

import (
	"fmt"
	"reflect"

	"github.com/fencedlock/locker"
)

// CheckClient refuses a client that is nil, also a nil pointer in an interface. which says where a
// client is missing.
func CheckClient(client any, which string) error {
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: %s is nil: want a client of go-redis", locker.ErrOption, which)
	}
	return nil
}
