package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Invalid arguments fail before the driver is called.
func TestInvalidArguments(t *testing.T) {
	f := &fake{}
	l := open(t, f)
	for _, tc := range []struct {
		name string
		opt  locker.Option
		want error
	}{
		{"", nil, locker.ErrName},
		{strings.Repeat("x", 201), nil, locker.ErrName},
		{"a\nb", nil, locker.ErrName},
		{"a\xffb", nil, locker.ErrName},
		{"name", locker.WithTTL(0), locker.ErrOption},
		{"name", locker.WithTTL(-time.Second), locker.ErrOption},
		{"name", locker.WithMaxHold(0), locker.ErrOption},
		{"name", locker.WithHolder("a\nb"), locker.ErrOption},
	} {
		var opts []locker.Option
		if tc.opt != nil {
			opts = append(opts, tc.opt)
		}
		_, err := l.Acquire(t.Context(), tc.name, opts...)
		matches(t, "Acquire", err, tc.want)
	}
	if n := len(f.prepared()); n > 0 {
		t.Errorf("the driver was asked for %d locks", n)
	}
}

func TestFeaturesThatTheDriverDoesNotKnow(t *testing.T) {
	const younger = locker.FeatureTTL << 7 // of an option that is newer than the driver
	f := &fake{}
	noTTL := openWith(t, f, driver.Config{})
	_, err := noTTL.Acquire(t.Context(), "name", locker.WithTTL(time.Second))
	matches(t, "Acquire", err, errors.ErrUnsupported)
	if !strings.Contains(err.Error(), "TTL") {
		t.Errorf("Acquire = %v, want it to name the TTL", err)
	}
	g := &fake{}
	withTTL := open(t, g)
	_, err = withTTL.Acquire(t.Context(), "name", func(r *locker.Request) { r.Features |= younger })
	matches(t, "Acquire", err, errors.ErrUnsupported)
	if n := len(f.prepared()) + len(g.prepared()); n > 0 {
		t.Errorf("the drivers were asked for %d locks", n)
	}
}

func TestTheRequestThatADriverSees(t *testing.T) {
	f := &fake{}
	l := open(t, f)
	for _, tc := range []struct {
		opts []locker.Option
		want locker.Request
	}{
		{nil, locker.Request{Name: "name", TTL: ttl}},
		{[]locker.Option{locker.WithTTL(time.Minute)},
			locker.Request{Name: "name", TTL: time.Minute, Features: locker.FeatureTTL}},
		{[]locker.Option{locker.NoWait(), locker.WithoutRenewal(), locker.WithMaxHold(time.Hour)},
			locker.Request{Name: "name", TTL: ttl, NoWait: true, NoRenewal: true, MaxHold: time.Hour}},
		{[]locker.Option{locker.WithHolder("deploy by alice")}, locker.Request{Name: "name", TTL: ttl, Holder: "deploy by alice"}},
	} {
		if tc.want.Holder == "" {
			tc.want.Holder = locker.DefaultHolder()
		}
		mustAcquire(t, l, "name", tc.opts...).Release(t.Context())
		locks := f.prepared()
		if got := locks[len(locks)-1].req; got != tc.want {
			t.Errorf("request = %+v, want %+v", got, tc.want)
		}
	}
}

// What a driver's Lock refuses fails before the caller queues.
func TestADriverThatRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: queues(nil)}
		l := open(t, f)
		start(t, l, "name").waits()
		f.refuse = locker.ErrOption
		_, err := l.Acquire(t.Context(), "name")
		matches(t, "Acquire", err, locker.ErrOption)
	})
}

// The same holds for a driver that refuses only the Lock of a later acquisition.
func TestADriverThatRefusesToQueueAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: queues(nil)}
		p := start(t, open(t, f), "name")
		p.waits()
		f.refuse = errService
		f.tell(0, errRevoked)
		matches(t, "Acquire", p.failed(), errService)
	})
}
