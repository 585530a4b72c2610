package etcdbackend

import (
	"context"

	"github.com/fencedlock/locker"
)

// CurrentToken reads the oldest of the name's keys, which is the holder's.
func (d *etcdDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	key, err := d.holderOf(ctx, name, 0)
	if err != nil || key == nil {
		return 0, err
	}
	return locker.Token(key.CreateRevision), nil
}
