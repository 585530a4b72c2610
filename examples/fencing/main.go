// Fencing shows the purpose of a token. A holder pauses between its read and its write, its lease
// ends, and the next holder does its work. Then the first holder wakes up and writes. The storage
// checks the token, so the late write is refused.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// account is a storage that remembers the highest token it has seen. Claim comes before the first
// read: from then on every holder with a smaller token is late.
type account struct {
	mu      sync.Mutex
	balance int
	highest locker.Token
}

var errStale = errors.New("refused: a holder with a larger token was here")

func (a *account) Claim(t locker.Token) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t < a.highest {
		return errStale
	}
	a.highest = t
	return nil
}

func (a *account) Read() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.balance
}

func (a *account) Write(t locker.Token, balance int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t < a.highest { // the check and the write are one step
		return errStale
	}
	a.highest, a.balance = t, balance
	return nil
}

// deposit adds to the balance under the lock. pause represents anything that may stop a process
// between its read and its write.
func deposit(ctx context.Context, l locker.Locker, a *account, amount int, pause func(locker.Lease)) error {
	lease, err := l.Acquire(ctx, "account", locker.WithTTL(50*time.Millisecond), locker.WithoutRenewal())
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	if err := a.Claim(lease.Token()); err != nil {
		return err
	}
	balance := a.Read()
	pause(lease)
	return a.Write(lease.Token(), balance+amount)
}

func main() {
	ctx := context.Background()
	l := membackend.New()
	defer l.Close()
	a := &account{balance: 100}

	err := deposit(ctx, l, a, 10, func(lease locker.Lease) {
		<-lease.Done() // paused for longer than the TTL; meanwhile:
		if err := deposit(ctx, l, a, 20, func(locker.Lease) {}); err != nil {
			log.Fatal(err)
		}
		fmt.Println("the second holder has written:", a.Read())
	})
	fmt.Println("the first holder's late write:", err)
	fmt.Println("balance:", a.Read())
}
