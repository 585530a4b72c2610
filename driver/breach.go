package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
)

// MaxBreach is the longest text of [FormatBreach], in bytes.
const MaxBreach = 15 + len(";now;slot=1000") + 1 + 3 + 1 + locker.MaxHolder + 1 + locker.MaxReason

// atOnce marks the text of a Breach that lets others in at once.
const atOnce = ";now"

// onSlot comes before the slot of a permit, which has four characters at most.
const onSlot = ";slot="

// FormatBreach returns a Breach as a driver writes it on the service, to mark a lease or for its
// holder to find: one line of printable UTF-8 with at most [MaxBreach] bytes, such as
//
//	1795370723000 9 bob@ops-1 hangs since 17:50, OPS-119
//	1795370723000;now 9 bob@ops-1 hangs since 17:50, OPS-119
//	1795370723000;now;slot=3 9 bob@ops-1 hangs since 17:50, OPS-119
//
// with the time in milliseconds since 1970 (0 if it isn't known), the length of By in bytes, By and
// Reason. It is never empty. WithOthers is left out: it doesn't concern the holder.
func FormatBreach(b locker.Breach) string {
	at := b.At.UnixMilli()
	if at < 0 || at > lastAsked {
		at = 0
	}
	mode := ""
	if b.AtOnce {
		mode = atOnce
	}
	if b.Slot != 0 {
		mode += onSlot + strconv.Itoa(b.Slot)
	}
	by := printable(b.By, locker.MaxHolder)
	return fmt.Sprintf("%d%s %d %s %s", at, mode, len(by), by, printable(b.Reason, locker.MaxReason))
}

// ParseBreach reads what FormatBreach has written. Of any other text it makes a Breach whose Reason
// is the beginning of the text: where a driver expects a mark, whatever is found is one. A service
// may contain anything, so By and Reason are always printable and within their limits.
func ParseBreach(text string) locker.Breach {
	head, rest, _ := strings.Cut(text, " ")
	head, slot, err0 := cutSlot(head)
	number, now := strings.CutSuffix(head, atOnce)
	at, err1 := strconv.ParseUint(number, 10, 63)
	size, rest, _ := strings.Cut(rest, " ")
	n, err2 := strconv.ParseUint(size, 10, 31)
	if err0 != nil || err1 != nil || err2 != nil || at > lastAsked || n >= uint64(len(rest)) || rest[n] != ' ' {
		return locker.Breach{Reason: printable(text, locker.MaxReason)}
	}
	b := locker.Breach{By: printable(rest[:n], locker.MaxHolder), Reason: printable(rest[n+1:], locker.MaxReason), AtOnce: now, Slot: slot}
	if at > 0 {
		b.At = time.UnixMilli(int64(at)).UTC()
	}
	return b
}

// cutSlot cuts the slot from the end of a text.
func cutSlot(text string) (rest string, slot int, err error) {
	rest, number, found := strings.Cut(text, onSlot)
	if !found {
		return text, 0, nil
	}
	slot, err = strconv.Atoi(number)
	if err == nil && (slot == 0 || slot < locker.LineSlot || slot > locker.MaxPermits || strconv.Itoa(slot) != number) {
		err = strconv.ErrRange
	}
	return rest, slot, err
}

// Broken returns the error with which a driver reports that a lease was taken away, by lost or by
// the report of a renewal: see [Breaker]. It matches [locker.ErrLost] and [locker.ErrBroken] and
// contains b. The driver must not wrap it. The engine recognises a breach only when it isn't
// wrapped: a wrapped one may be another lease's, which came with the cause of some context.
func Broken(b locker.Breach) error {
	return &verdict.Loss{Class: locker.LossBroken, Err: fmt.Errorf("%w: %w", locker.ErrLost, &b)}
}
