package membackend

import (
	"maps"
	"slices"

	"github.com/fencedlock/locker/driver"
)

// NewDriver is New without the engine.
func NewDriver(opts ...Option) driver.Driver {
	c := config{ttl: defaultTTL}
	for _, opt := range opts {
		opt(&c)
	}
	return c.driver()
}

// NamedServices lists the services that URLs have made.
func NamedServices() []string {
	named.mu.Lock()
	defer named.mu.Unlock()
	return slices.Collect(maps.Keys(named.services))
}
