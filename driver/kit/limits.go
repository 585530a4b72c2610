package kit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// TTLBounds says which TTLs a backend accepts.
type TTLBounds struct {
	Min, Max time.Duration // Max 0: none
	Unit     time.Duration // what the service counts in; 0: any time
	Why      string        // optional: where Max comes from, such as "the servers' longest session"
}

// Check refuses a TTL out of bounds with an error that matches [locker.ErrOption]. It doesn't round.
func (t TTLBounds) Check(ttl time.Duration) error {
	if ttl >= t.Min && (t.Max == 0 || ttl <= t.Max) {
		return nil
	}
	want, example := fmt.Sprintf("%v or more", t.Min), max(t.Min, 30*time.Second)
	if t.Max != 0 {
		want, example = fmt.Sprintf("%v to %v", t.Min, t.Max), min(example, t.Max)
	}
	if t.Why != "" && ttl > t.Max {
		want += " (" + t.Why + ")"
	}
	return fmt.Errorf("%w: TTL %v: want %s, for example %v", locker.ErrOption, ttl, want, example)
}

// RoundUp rounds d up to whole units, for [driver.Grant]'s TTL and for the service. A holder that
// counted less than the service would give up too early; a holder that counted more would believe
// in its lease while the service lets another one in. A d that can't be rounded up, because it is
// less than a unit from the longest Duration, is rounded down.
//
// Rounding isn't enough where the service's clock itself goes in units, such as one that ticks each
// second: a key that is set for n units just before a tick ends almost one unit early. Ask such a
// service for one unit more than the grant's TTL, and add that unit to the Slack of
// [locker.Expiry].
func (t TTLBounds) RoundUp(d time.Duration) time.Duration {
	if t.Unit <= 1 || d%t.Unit <= 0 {
		return d
	}
	d -= d % t.Unit
	if d > math.MaxInt64-t.Unit {
		return d
	}
	return d + t.Unit
}

// CheckPrefix refuses a prefix of keys that isn't UTF-8 or has control characters, with an error that
// matches [locker.ErrOption]. The prefix may be empty.
func CheckPrefix(prefix string) error {
	if !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl) {
		return fmt.Errorf("%w: prefix: want UTF-8 without control characters, for example %q", locker.ErrOption, "billing/")
	}
	return nil
}

// CheckVersion refuses a version of a product that is older than oldest, with an error that matches
// [errors.ErrUnsupported]. What follows the leading numbers of version doesn't count (3.6.0-rc.1 is
// 3.6). A version with fewer leading numbers than oldest can't be judged, and passes: what the driver
// then tries at the service decides.
func CheckVersion(product, version string, oldest ...int) error {
	var numbers []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < len(oldest) || slices.Compare(numbers, oldest) >= 0 {
		return nil
	}
	want := strings.ReplaceAll(strings.Trim(fmt.Sprint(oldest), "[]"), " ", ".")
	return fmt.Errorf("%w: %s %s: want %s or later", errors.ErrUnsupported, product, version, want)
}
