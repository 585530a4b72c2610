package zkbackend

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

var _ driver.TokenReader = (*zkDriver)(nil)

// CurrentToken looks for the first of the lock's nodes. It uses the session of the default TTL.
//
//nolint:contextcheck // the client knows no contexts; ctx bounds the waiting
func (d *zkDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	for {
		s, err := d.session(ctx, d.ttl)
		if err != nil {
			return 0, err
		}
		type answer struct {
			token locker.Token
			err   error
		}
		answers := make(chan answer, 1)
		go func() { // ends with the call, which is bounded by the connection
			defer d.leave(s)
			token, err := s.current(ctx, d.root+"/"+escape(name))
			answers <- answer{token, err}
		}()
		select {
		case a := <-answers:
			if !broken(a.err) && !errors.Is(a.err, errOver) || ctx.Err() != nil {
				return a.token, a.err
			} // else the connection or the session has ended, and the next one is asked
		case <-ctx.Done():
			return 0, s.unanswered()
		}
	}
}

// current asks a server that is made to know the latest.
func (s *session) current(ctx context.Context, dir string) (locker.Token, error) {
	if err := s.catchUp(ctx, dir); err != nil {
		return 0, zkconn.Ignore(err, zk.ErrNoNode) // none: there is no such lock
	}
	for {
		nodes, _, err := s.queue(dir)
		if err != nil || len(nodes) == 0 {
			return 0, zkconn.Ignore(err, zk.ErrNoNode)
		}
		there, stat, err := s.conn.Exists(dir + "/" + nodes[0].name)
		if err != nil {
			return 0, err
		}
		if there {
			return locker.Token(stat.Czxid), nil
		}
	}
}
