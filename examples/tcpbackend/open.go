package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

func init() { locker.Register(backend, open) }

// open serves URLs such as tcpexample://locks.example:7000?ttl=10s.
func open(_ context.Context, u *url.URL) (locker.Locker, error) {
	p := kit.NewParams(u)
	ttl := p.Duration("ttl", 30*time.Second)
	err := p.Err()
	if err == nil && (u.Port() == "" || u.User != nil || u.Path != "" && u.Path != "/") {
		err = errors.Join(locker.ErrOption, errors.New("want a host and a port, as in tcpexample://locks.example:7000"))
	}
	if err == nil {
		err = bounds.Check(ttl)
	}
	if err != nil {
		return nil, kit.OpenError(backend, err)
	}
	return New(u.Host, new(net.Dialer).DialContext, ttl), nil
}
