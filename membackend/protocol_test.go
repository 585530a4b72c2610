package membackend

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver"
)

// step is a request of one owner, at a time in seconds, and what is expected of it.
type step struct {
	at     int
	owner  string
	do     string
	want   string   // the answer
	pushed []string // by the service, since the step before
}

// protocolTTL is the TTL of all owners but the one called short, whose TTL is a third of it.
const protocolTTL = 9 * time.Second

var protocol = []struct {
	name  string
	steps []step
	left  string // Residue at the end
}{
	{"free, held, free again", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "try", "refused", nil},
		{2, "a", "release", "", nil},
		{3, "b", "try", "granted", nil},
		{4, "b", "release", "", nil},
	}, ""},
	{"acquire is idempotent for its owner, and starts the TTL again", []step{
		{0, "a", "acquire", "granted", nil},
		{5, "a", "acquire", "granted", nil},
		{13, "b", "try", "refused", nil},
		{14, "b", "try", "granted", []string{"a lost"}},
		{14, "b", "release", "", nil},
	}, ""},
	{"queueing is idempotent for its owner", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{0, "c", "acquire", "queued", nil},
		{1, "b", "acquire", "queued", nil},
		{1, "a", "release", "", []string{"b granted"}},
		{1, "b", "release", "", []string{"c granted"}},
		{1, "c", "release", "", nil},
	}, ""},
	{"queueing again keeps a place alive", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{8, "a", "renew", "granted", nil},
		{8, "b", "acquire", "queued", nil},
		{16, "a", "release", "", []string{"b granted"}},
		{16, "b", "release", "", nil},
	}, ""},
	{"first come, first served, and nobody barges in", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "acquire", "queued", nil},
		{2, "c", "acquire", "queued", nil},
		{3, "a", "release", "", []string{"b granted"}},
		{3, "d", "try", "refused", nil},
		{4, "b", "release", "", []string{"c granted"}},
		{5, "c", "release", "", nil},
	}, ""},
	{"a waiter that leaves holds nobody up", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "acquire", "queued", nil},
		{2, "c", "acquire", "queued", nil},
		{3, "b", "release", "", nil},
		{4, "a", "release", "", []string{"c granted"}},
		{5, "b", "renew", "gone", nil},
	}, `"lock" is held, and 0 wait`},
	{"the TTL ends a silent holder, not before it is over", []step{
		{0, "a", "acquire", "granted", nil},
		{8, "b", "try", "refused", nil},
		{8, "", "", "", nil},
		{9, "", "", "", []string{"a lost"}},
		{9, "a", "renew", "gone", nil},
	}, ""},
	{"an expiry with waiters hands over by itself", []step{
		{0, "a", "acquire", "granted", nil},
		{8, "b", "acquire", "queued", nil},
		{9, "", "", "", []string{"a lost", "b granted"}},
		{10, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"renewal starts the TTL again", []step{
		{0, "a", "acquire", "granted", nil},
		{8, "a", "renew", "granted", nil},
		{16, "b", "try", "refused", nil},
		{17, "b", "try", "granted", []string{"a lost"}},
	}, `"lock" is held, and 0 wait`},
	{"renewal keeps a place", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{8, "a", "renew", "granted", nil},
		{8, "b", "renew", "queued", nil},
		{16, "b", "renew", "queued", nil},
		{16, "a", "release", "", []string{"b granted"}},
	}, `"lock" is held, and 0 wait`},
	{"renewal creates nothing", []step{
		{0, "a", "renew", "gone", nil},
		{0, "b", "acquire", "granted", nil},
		{1, "a", "renew", "gone", nil},
		{2, "b", "release", "", nil},
		{3, "b", "renew", "gone", nil},
		{3, "c", "try", "granted", nil},
		{3, "c", "release", "", nil},
	}, ""},
	{"a dead waiter at the head is passed over", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{5, "c", "acquire", "queued", nil},
		{8, "a", "renew", "granted", nil},
		{10, "a", "release", "", []string{"c granted"}},
		{10, "b", "renew", "gone", nil},
	}, `"lock" is held, and 0 wait`},
	{"a dead waiter goes though the lock stays held", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{8, "a", "renew", "granted", nil},
		{9, "", "", "", nil},
	}, `"lock" is held, and 0 wait`},
	{"a waiter with a shorter TTL is dead sooner", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "short", "acquire", "queued", nil},
		{1, "short", "renew", "queued", nil},
		{4, "", "", "", nil},
		{4, "short", "renew", "gone", nil},
	}, `"lock" is held, and 0 wait`},
	{"a grant to a waiter ends a TTL after its last refresh", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "acquire", "queued", nil},
		{3, "b", "renew", "queued", nil},
		{8, "a", "release", "", []string{"b granted"}},
		{11, "c", "try", "refused", nil},
		{12, "c", "try", "granted", []string{"b lost"}},
	}, `"lock" is held, and 0 wait`},
	{"a waiter that missed its push learns by renewing", []step{
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{1, "a", "release", "", []string{"b granted"}},
		{8, "b", "renew", "granted", nil},
		{16, "c", "try", "refused", nil},
	}, `"lock" is held, and 0 wait`},
	{"a stale holder harms nobody", []step{
		{0, "a", "acquire", "granted", nil},
		{9, "b", "acquire", "granted", []string{"a lost"}},
		{10, "a", "renew", "gone", nil},
		{10, "a", "release", "", nil},
		{11, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"releasing twice harms nobody", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "a", "release", "", nil},
		{1, "b", "acquire", "granted", nil},
		{1, "a", "release", "", nil},
		{2, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"an acquire that comes after its release makes no ghost", []step{
		{0, "a", "release", "", nil},
		{8, "a", "acquire", "gone", nil},
		{8, "a", "try", "gone", nil},
		{8, "b", "try", "granted", nil},
		{8, "b", "release", "", nil},
	}, ""},
	{"a release that finds nothing leaves nothing permanently", []step{
		{0, "a", "release", "", nil},
	}, ""},
	{"forced removal is pushed, and hands over", []step{
		{0, "a", "expire", "false", nil},
		{0, "a", "acquire", "granted", nil},
		{0, "b", "acquire", "queued", nil},
		{1, "", "expire", "true", []string{"a lost", "b granted"}},
		{1, "a", "release", "", nil},
		{2, "", "expire", "true", []string{"b lost"}},
		{2, "", "expire", "false", nil},
	}, ""},
	{"a break lets nobody in before the holder has released", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "acquire", "queued", nil},
		{2, "", "break", "true", []string{"a broken"}},
		{3, "c", "try", "refused", nil},
		{4, "", "break", "true", nil},
		{5, "a", "release", "", []string{"b granted"}},
		{6, "a", "renew", "gone", nil},
		{6, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"a broken lease isn't renewed any more", []step{
		{0, "a", "acquire", "granted", nil},
		{2, "", "break", "true", []string{"a broken"}},
		{3, "b", "acquire", "queued", nil},
		{4, "a", "renew", "broken", nil},
		{5, "a", "acquire", "broken", nil},
		{8, "c", "try", "refused", nil},
		{9, "", "", "", []string{"a lost", "b granted"}},
		{9, "a", "release", "", nil},
		{10, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"a break is of one lease", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "", "break", "true", []string{"a broken"}},
		{2, "a", "release", "", nil},
		{2, "b", "acquire", "granted", nil},
		{4, "b", "renew", "granted", nil},
		{12, "c", "try", "refused", nil},
	}, `"lock" is held, and 0 wait`},
	{"a break at once hands over, and leaves why", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "b", "acquire", "queued", nil},
		{2, "", "break at once", "true", []string{"a lost", "b granted"}},
		{3, "a", "renew", "gone", nil},
		{3, "a", "acquire", "gone", nil},
		{3, "a", "release", "", nil},
		{4, "b", "renew", "granted", nil},
	}, `"lock" is held, and 0 wait`},
	{"a break at once ends a lease that is broken already", []step{
		{0, "a", "acquire", "granted", nil},
		{1, "", "break", "true", []string{"a broken"}},
		{2, "", "break at once", "true", []string{"a lost"}},
		{2, "b", "try", "granted", nil},
		{3, "b", "renew", "granted", nil},
		{3, "b", "release", "", nil},
	}, ""},
}

// TestProtocol plays requests of several owners on one name, one after the other, and checks each
// answer, and what the service pushed by itself.
func TestProtocol(t *testing.T) {
	for _, tt := range protocol {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, start := newStage(), driver.Stamp()
				for i, step := range tt.steps {
					time.Sleep(start.Add(time.Duration(step.at) * time.Second).Sub(driver.Stamp()))
					synctest.Wait() // for the service's own timers
					if got := st.play(step.owner, step.do); got != step.want {
						t.Fatalf("step %d: %s of %q = %q, want %q", i, step.do, step.owner, got, step.want)
					}
					if got := st.takePushed(); !slices.Equal(got, step.pushed) {
						t.Fatalf("step %d: pushed %q, want %q", i, got, step.pushed)
					}
				}
				if got := st.server.Residue(); got != tt.left {
					t.Errorf("Residue = %q, want %q", got, tt.left)
				}
				time.Sleep(2 * protocolTTL)
				synctest.Wait()
				if n := st.names(); n != 0 {
					t.Errorf("%d names are remembered two TTLs after the last request, want none", n)
				}
				if !slices.IsSorted(st.tokens) || len(slices.Compact(st.tokens)) < len(st.tokens) {
					t.Errorf("tokens in the order of the grants = %d, want each larger than the one before", st.tokens)
				}
			})
		})
	}
}
