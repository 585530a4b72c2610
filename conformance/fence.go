package conformance

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/fencedlock/locker"
)

// fence is a storage that checks fencing tokens, in memory: a number that a holder claims before it
// reads and writes. The fence refuses a token below the highest that it has seen. It accepts an
// equal token, because one lease may write twice. The claim comes before the first read: if only
// writes were checked, a stale write could come between its successor's read and write.
type fence struct {
	mu      sync.Mutex
	highest locker.Token
	value   int
}

var errStale = errors.New("stale token")

// claim reads the number. From then on smaller tokens are refused.
func (f *fence) claim(token locker.Token) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(token); err != nil {
		return 0, err
	}
	return f.value, nil
}

// write checks the token and writes, in one step.
func (f *fence) write(token locker.Token, value int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(token); err != nil {
		return err
	}
	f.value = value
	return nil
}

func (f *fence) check(token locker.Token) error {
	if token < f.highest {
		return fmt.Errorf("%w: %v is below %v", errStale, token, f.highest)
	}
	f.highest = token
	return nil
}

// record is what a storage keeps: one record, so that a crash can't separate token and value.
// Decimal digits are exact. The floating-point numbers of Lua, JavaScript and JSON are not, above
// 2^53.
func (f *fence) record() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.FormatInt(int64(f.highest), 10) + " " + strconv.Itoa(f.value)
}

// recoverFence returns the storage that a record describes, as after a crash.
func recoverFence(record string) (*fence, error) {
	var f fence
	if _, err := fmt.Sscanf(record, "%d %d", &f.highest, &f.value); err != nil {
		return nil, err
	}
	return &f, nil
}
