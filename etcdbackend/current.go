package etcdbackend

import (
	"context"

	"github.com/fencedlock/locker"
)

// CurrentToken reads the oldest of the keys of the name or its slot, which is the holder's.
func (d *etcdDriver) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	key, err := d.holderOf(ctx, name, slot)
	if err != nil || key == nil {
		return 0, err
	}
	return locker.Token(key.CreateRevision), nil
}
