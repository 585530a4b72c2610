package etcdbackend

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

const (
	Near    = near
	MaxFree = maxFree
)

var (
	DirOf        = dirOf
	GuardOf      = guardOf
	EndOf        = endOf
	CheckPrefix  = checkPrefix
	CheckVersion = checkVersion
	GrantedIn    = grantedIn
	Refused      = refused
	Code         = code
	Overdue      = overdue
	AttemptLimit = attemptLimit
)

// Proved is proved, in numbers.
func Proved(granted uint64, sent driver.Instant, beatTerm, heard, linearSent, linearTerm uint64) (driver.Instant, bool) {
	return proved(granted, beat{sent: sent, term: beatTerm, heard: moment(heard)}, linear{sent: moment(linearSent), term: linearTerm})
}

// MaybeDone is what a call knows after gRPC has handed it to a connection that often.
func MaybeDone(handed int32, err error) bool {
	var c call
	c.handed.Store(handed)
	return c.maybeDone(err)
}

// Attempt sends a Txn to one member, and reports whether it was sent, and whether it may be carried out late.
func Attempt(ctx context.Context, client *clientv3.Client, addr string, limit time.Duration) (sent, late bool, err error) {
	m := newMember(client, addr)
	defer m.close()
	var c call
	err = c.attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
		_, err := m.kv.Txn(ctx).Commit()
		return err
	})
	return c.sent(), c.maybeDone(err), err
}

// KeepAlive sends a keepalive to one member, on a new stream.
func KeepAlive(ctx context.Context, client *clientv3.Client, addr string, limit time.Duration) error {
	m := newMember(client, addr)
	defer m.close()
	return new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
		_, _, err := m.keepAlive(ctx, 1)
		return err
	})
}

// KeepAlives sends rounds of as many keepalives to one member as a Renew has under way. Each begins with a call of begin.
func KeepAlives(ctx context.Context, client *clientv3.Client, addr string, rounds int, limit time.Duration, begin func(n int)) error {
	m := newMember(client, addr)
	defer m.close()
	errs := make([]error, maxFree)
	for range rounds {
		begin(len(errs))
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				errs[i] = new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
					_, _, err := m.keepAlive(ctx, clientv3.LeaseID(i+1))
					return err
				})
			})
		}
		all.Wait()
	}
	return errors.Join(errs...)
}

// Grant has an etcd lease granted, and returns those that may have been granted in vain.
func Grant(ctx context.Context, client *clientv3.Client) (strays int, err error) {
	s := &server{client: client}
	defer s.close()
	_, err = s.grant(ctx, time.Second, 10, func(clientv3.LeaseID) { strays++ })
	return strays, err
}

// Txn sends a Txn to one member after the other, as a driver does with its first request.
func Txn(ctx context.Context, client *clientv3.Client, limit time.Duration) error {
	s := &server{client: client}
	defer s.close()
	_, err := s.txn(ctx, limit, nil, nil, nil)
	return err
}

// Shared is shared, with calls that run in goroutines of their own.
type Shared struct{ s shared }

func (s *Shared) Do(ctx context.Context, call func(context.Context) error) error {
	return s.s.do(ctx, func(task func(context.Context)) bool {
		go task(context.WithoutCancel(ctx))
		return true
	}, call)
}

// Unproved is unproved, of a session whose newest etcd lease has a Base and a beat of so long ago.
func Unproved(base, beatSent, age time.Duration, over bool) bool {
	now := driver.Stamp()
	s := session{gen: &generation{base: now.Add(-base), beat: beat{sent: now.Add(-beatSent)}, over: over}}
	return s.unproved(age)
}

// ParseURL returns what a URL says.
func ParseURL(u *url.URL) (Settings, error) {
	t, err := parse(u)
	return Settings{t.config, t.client}, err
}

type Settings struct {
	c      config
	Client clientv3.Config
}

func (s Settings) Config() (prefix, ttl string) {
	return s.c.prefix, s.c.ttl.String()
}

// Place is what becomes of a place in the queue by steps; see TestPlace.
func Place(steps []string) string {
	var p place
	for _, step := range steps {
		words := strings.Fields(step)
		switch words[0] {
		case "look":
			p.begin()
		case "read":
			var keys []entry
			for i, word := range words[1:] {
				if word != "+" {
					keys = append(keys, entry{word, int64(i)})
				}
			}
			p.read("me", keys, words[len(words)-1] == "+")
		case "-":
			p.ended(words[1])
		case "missed":
			p.missed(words[1])
		}
	}
	switch {
	case p.won:
		return "won"
	case p.look:
		return "looks"
	case p.far != "":
		return "waits for " + p.far
	}
	return "waits"
}
