package reference

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

const (
	scheme     = "reference"
	defaultTTL = 30 * time.Second
)

func init() { locker.Register(scheme, open) }

// New returns a service. It has a defect if m isn't nil.
func New(m *Mutation, d Dialect) *Service { return newService(m, d) }

// Open returns a Locker with a connection of its own, on a network that may be disturbed.
func (s *Service) Open(link *Link) locker.Locker {
	return s.newLocker(newClient(s, link), "", defaultTTL)
}

// OpenAhead returns a Locker on a machine whose clock is ahead of the service's.
func (s *Service) OpenAhead(link *Link, ahead time.Duration) locker.Locker {
	c := newClient(s, link)
	c.ahead = ahead
	return s.newLocker(c, "", defaultTTL)
}

// Prefixed returns a Locker that adds a prefix to each name.
func (s *Service) Prefixed(prefix string) locker.Locker {
	return s.newLocker(newClient(s, new(Link)), prefix, defaultTTL)
}

func (s *Service) newLocker(c *client, prefix string, ttl time.Duration) locker.Locker {
	return driver.New(&refDriver{client: c, prefix: prefix}, driver.Config{TTL: ttl, Features: locker.FeatureTTL})
}

// served are the services that have a URL, by the number in it.
var served struct {
	mu   sync.Mutex
	last int
	by   map[string]*Service
}

// Serve gives the service a URL, until stop is called.
func (s *Service) Serve() (rawURL string, stop func()) {
	served.mu.Lock()
	defer served.mu.Unlock()
	served.last++
	host := strconv.Itoa(served.last)
	if served.by == nil {
		served.by = make(map[string]*Service)
	}
	served.by[host] = s
	return scheme + "://" + host, func() {
		served.mu.Lock()
		defer served.mu.Unlock()
		delete(served.by, host)
	}
}

// open opens the URL of a service. The one parameter is ttl.
func open(_ context.Context, u *url.URL) (locker.Locker, error) {
	p := kit.NewParams(u)
	ttl := p.Duration("ttl", defaultTTL)
	if err := p.Err(); err != nil {
		return nil, err
	}
	if err := ttls.Check(ttl); err != nil {
		return nil, err
	}
	served.mu.Lock()
	s := served.by[u.Host]
	served.mu.Unlock()
	if s == nil || u.User != nil || u.Path != "" {
		return nil, fmt.Errorf("%w: invalid URL: want reference://NUMBER of a service", locker.ErrOption)
	}
	return s.newLocker(newClient(s, new(Link)), "", ttl), nil
}
