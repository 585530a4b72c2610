package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

var _ driver.TokenReader = (*zkDriver)(nil)

// CurrentToken looks for the first of the nodes of the lock or the slot.
func (d *zkDriver) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	return asking(ctx, d, func(s *session) (locker.Token, error) {
		return s.lockDir(d.chroot.dir(name, slot)).currentToken(ctx)
	})
}

// currentToken asks a server that knows every earlier write.
func (d lockDir) currentToken(ctx context.Context) (locker.Token, error) {
	if err := d.catchUp(ctx); err != nil {
		return 0, zkconn.Ignore(err, zk.ErrNoNode) // nobody holds the lock, nor has for a while
	}
	for {
		nodes, _, err := d.queue()
		if err != nil || len(nodes) == 0 {
			return 0, zkconn.Ignore(err, zk.ErrNoNode)
		}
		stat, err := d.s.conn.Exists(d.path + "/" + nodes[0].name)
		if err != nil {
			return 0, err
		}
		if stat != nil {
			return locker.Token(stat.Czxid), nil
		}
	}
}
