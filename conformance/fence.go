package conformance

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/fencedlock/locker"
)

// fence is the other half of a fencing token, in memory: a number that whoever claims it first may read and write. It
// refuses a token below the highest it has seen, and takes an equal one, because one lease may write twice. The claim
// comes before the first read: with a check on writes alone, a stale write can land between its successor's read and
// write.
type fence struct {
	mu      sync.Mutex
	highest locker.Token
	value   int
}

var errStale = errors.New("stale token")

// claim reads, and refuses from now on whoever has a smaller token.
func (f *fence) claim(token locker.Token) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(token); err != nil {
		return 0, err
	}
	return f.value, nil
}

// write is one step with the check of its token.
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

// record is what a storage keeps: one record, so that token and value can't part in a crash. Decimal digits are exact;
// the floating-point numbers of Lua, JavaScript and JSON are not above 2^53.
func (f *fence) record() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.FormatInt(int64(f.highest), 10) + " " + strconv.Itoa(f.value)
}

// recoverFence is a storage after a crash.
func recoverFence(record string) (*fence, error) {
	var f fence
	if _, err := fmt.Sscanf(record, "%d %d", &f.highest, &f.value); err != nil {
		return nil, err
	}
	return &f, nil
}
