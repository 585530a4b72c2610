package otellocker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// A lease whose removal Close gives up has neither EventReleased nor EventLost.
func TestSpansOfLeasesThatCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, p := membackend.NewServer(), membackend.NewLink(), newTracers()
		l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHoldSpans())
		granted := time.Now()
		released, held := acquire(t, l, "released"), acquire(t, l, "held")
		time.Sleep(time.Second)
		link.Cut()
		if err := released.Release(t.Context()); err == nil {
			t.Fatal("Release = nil while the link is cut")
		}
		failed := time.Now() // the first try
		time.Sleep(time.Minute)
		if n := len(p.ended("locker.hold")); n != 0 {
			t.Errorf("%d spans of leases have ended before Close", n)
		}
		closing := time.Now()
		if err := l.Close(); err == nil {
			t.Fatal("Close = nil while the link is cut")
		}
		closed := time.Now()

		hold := p.ended("locker.hold")
		if len(hold) != 2 {
			t.Fatalf("%d spans of leases have ended with Close, want 2", len(hold))
		}
		for _, span := range hold {
			attributes := "locker.backend=mem locker.name=released locker.token=" + released.Token().String() + " locker.ttl=3600"
			if got := attrs(span.Attributes()); got == attributes {
				wantSpan(t, span, granted, failed, codes.Unset, attributes)
			} else if got != "locker.backend=mem locker.name=held locker.token="+held.Token().String()+" locker.ttl=3600" {
				t.Errorf("the attributes are %v", got)
			} else if end := span.EndTime(); end.Before(closing) || end.After(closed) {
				t.Errorf("the span of a lease that Close has ended ends at %v, want it during Close", end)
			}
		}
		link.Heal()
	})
}

// They end also where there are so many leases that the spans of those that are over are looked for.
func TestSpansOfManyLeasesThatCloseGivesUp(t *testing.T) {
	const many = 1010
	synctest.Test(t, func(t *testing.T) {
		link, p := membackend.NewLink(), newTracers()
		l := membackend.New(membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
		instrument(t, l, otellocker.WithTracerProvider(p), otellocker.WithHoldSpans())
		for i := range many {
			acquire(t, l, fmt.Sprint(i))
		}
		link.Cut()
		if err := l.Close(); err == nil {
			t.Fatal("Close = nil while the link is cut")
		}
		if n := len(p.ended("locker.hold")); n != many {
			t.Errorf("%d spans of leases have ended with Close, want %d", n, many)
		}
		link.Heal()
	})
}
