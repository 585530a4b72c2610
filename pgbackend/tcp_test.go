package pgbackend_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A server whose system can't be kept from ending the session of a holder that is cut off is
// refused, unless there is no network between.
func TestServerWithoutTCPUserTimeout(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.noTCP = true })
	refused(t, f, errors.ErrUnsupported, "tcp_user_timeout")
	f.change(func(f *fake) { f.local = true })
	l := open(t, f)
	f.somebodyHas("a")
	if _, err := l.Acquire(t.Context(), "a"); err != nil {
		t.Errorf("Acquire on a server of this machine = %v, want a lease", err)
	}
}

// From the moment at which a lease may be attached to a connection TCP may not end that before the
// TTL is over. A waiter's connection may be ended by it until then: so the server notices that a
// waiter is gone.
func TestTCPUserTimeout(t *testing.T) {
	f := newFake(t)
	l := open(t, f, pgbackend.WithDefaultTTL(time.Minute))
	limits := func() (all []string) {
		for c := range f.connections() {
			all = append(all, c.tcp)
		}
		return all
	}
	if got := limits(); len(got) != 1 || got[0] != "65000" {
		t.Errorf("tcp_user_timeout of the first connection is %q, want the TTL and 5 s", got)
	}
	f.somebodyHas("a")
	if _, err := l.Acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, got := range limits() {
		if got != "65000" {
			t.Errorf("tcp_user_timeout of a connection with a lease is %s ms, want the TTL and 5 s", got)
		}
	}
	const order = `^SELECT CASE WHEN set_config\('tcp_user_timeout', '0', false\).*pg_advisory_lock\(.*pg_advisory_lock\(.*` +
		`set_config\('tcp_user_timeout', '65000', false\).*nextval\(`
	f.change(func(f *fake) {
		for _, sql := range f.seen {
			if fakeWait.MatchString(sql) && !regexp.MustCompile(order).MatchString(sql) {
				t.Errorf("a waiter's statement doesn't switch tcp_user_timeout off, and on after the grant: %s", sql)
			}
		}
	})
}

// A setting that a server doesn't keep from one statement to the next is not relied on.
func TestTCPUserTimeoutThatIsLost(t *testing.T) {
	f := newFake(t)
	l := open(t, f)
	f.somebodyHas("a")
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			f.noTCP = fakeWait.MatchString(sql)
			for c := range f.conns {
				if f.noTCP {
					c.tcp = "0"
				}
			}
			return ""
		}
	})
	if _, err := l.Acquire(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire = %v, want ErrUnsupported", err)
	}
}
