package kit_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

func TestTTLCheck(t *testing.T) {
	open := kit.TTLBounds{Min: 10 * time.Millisecond}
	seconds := kit.TTLBounds{Min: 2 * time.Second, Max: 20 * time.Second, Why: "the servers' longest session"}
	for _, tc := range []struct {
		bounds kit.TTLBounds
		ttl    time.Duration
		text   string // "": accepted
	}{
		{open, 10 * time.Millisecond, ""},
		{open, math.MaxInt64, ""},
		{open, 0, "TTL 0s: want 10ms or more, for example 30s"},
		{open, -1, "TTL -1ns: want 10ms or more, for example 30s"},
		{kit.TTLBounds{Min: time.Minute}, 1, "TTL 1ns: want 1m0s or more, for example 1m0s"},
		{seconds, 2 * time.Second, ""},
		{seconds, 20 * time.Second, ""},
		{seconds, 2*time.Second - 1, "TTL 1.999999999s: want 2s to 20s, for example 20s"},
		{seconds, 20*time.Second + 1, "TTL 20.000000001s: want 2s to 20s (the servers' longest session), for example 20s"},
	} {
		err := tc.bounds.Check(tc.ttl)
		if tc.text == "" {
			if err != nil {
				t.Errorf("Check(%v) = %v", tc.ttl, err)
			}
			continue
		}
		if err == nil || err.Error() != locker.ErrOption.Error()+": "+tc.text || !errors.Is(err, locker.ErrOption) {
			t.Errorf("Check(%v) = %v, want %s", tc.ttl, err, tc.text)
		}
	}
}

func TestTTLRoundUp(t *testing.T) {
	for _, tc := range []struct{ unit, d, want time.Duration }{
		{time.Second, time.Second, time.Second},
		{time.Second, time.Second + 1, 2 * time.Second},
		{time.Second, 1, time.Second},
		{time.Second, 0, 0},
		{time.Second, -1, -1},
		{time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond},
		{0, 7, 7},
		{time.Second, math.MaxInt64, math.MaxInt64 / time.Second * time.Second},
	} {
		if got := (kit.TTLBounds{Unit: tc.unit}).RoundUp(tc.d); got != tc.want {
			t.Errorf("RoundUp(%v) to %v = %v, want %v", tc.d, tc.unit, got, tc.want)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, good := range []string{"", "locker:", "billing/", "日本/", strings.Repeat("x", 1000)} {
		if err := kit.CheckPrefix(good); err != nil {
			t.Errorf("CheckPrefix(%q) = %v", good, err)
		}
	}
	for _, bad := range []string{"a\x00", "line\n", "\xff", "\u0085"} {
		matches(t, "CheckPrefix", kit.CheckPrefix(bad), locker.ErrOption)
	}
}

func TestCheckVersion(t *testing.T) {
	for version, fits := range map[string]bool{
		"3.5.0": true, "3.5": true, "3.6.0": true, "3.10.2": true, "4.0": true, "4.0.0": true, "3.5.0-rc.1": true,
		"3.4.99": false, "2.9": false, "3.4.0-rc.1": false, "0.0": false,
		"": true, "3": true, "unknown": true, "v3.4": true, // can't be judged
	} {
		err := kit.CheckVersion("etcd", version, 3, 5)
		if fits != (err == nil) {
			t.Errorf("CheckVersion(%q) = %v, want it to fit: %v", version, err, fits)
		}
		if err != nil && (!errors.Is(err, errors.ErrUnsupported) || !strings.HasSuffix(err.Error(), "etcd "+version+": want 3.5 or later")) {
			t.Errorf("CheckVersion(%q) = %v", version, err)
		}
	}
}
