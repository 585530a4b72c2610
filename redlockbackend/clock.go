package redlockbackend

import (
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// clock proposes tokens: the wall clock in microseconds, and each token is larger than the one
// before. A proposal that is too small costs a second phase and nothing else, so the clock need not
// be right. After a second phase it learns how far it is off from what a majority has agreed to.
type clock struct {
	mu   sync.Mutex
	last locker.Token
	off  locker.Token // to be added to the wall clock
}

func (c *clock) propose() locker.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, locker.Token(time.Now().UnixMicro())+c.off)
	return c.last
}

// learn is called with the token of a second phase.
func (c *clock) learn(token locker.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.off = token, token-locker.Token(time.Now().UnixMicro())
}
