package conformance_test

import (
	"context"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// What the toy's driver does in several requests, with some flaws.

// looks asks whether a key is an owner's, and not marked.
func (l *toyLock) looks(ctx context.Context) (mine bool, err error) {
	err = l.d.call(ctx, l.ttl, func(now time.Time) {
		k := l.d.server.get(l.name, now)
		mine = k != nil && k.owner == l.owner && k.breach == nil
	})
	return mine, err
}

// renewInSteps looks at the key, and then sets it.
func (l *toyLock) renewInSteps(ctx context.Context) error {
	if mine, err := l.looks(ctx); err != nil || !mine {
		return l.renew(ctx) // which says why
	}
	return l.d.call(ctx, l.ttl, func(now time.Time) {
		token := l.d.server.last
		if k := l.d.server.get(l.name, now); k != nil {
			token = k.token
		}
		l.d.server.set(l.name, l.owner, l.d.link, l.ttl, now)
		l.d.server.keys[l.name].token = token
	})
}

// renew is a renewal in one request.
func (l *toyLock) renew(ctx context.Context) (answer error) {
	if err := l.d.call(ctx, l.ttl, func(now time.Time) { answer = l.d.server.renew(l.name, l.owner, l.ttl, now) }); err != nil {
		return err
	}
	return answer
}

// renewEach renews keys one after another.
func (d *toyDriver) renewEach(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	answers := make([]error, len(locks))
	stamps := make([]driver.Instant, len(locks))
	for i, lock := range locks {
		stamps[i] = driver.Stamp()
		if d.server.flaws.renewsInSteps {
			answers[i] = lock.(*toyLock).renewInSteps(ctx)
		} else {
			answers[i] = lock.(*toyLock).renew(ctx)
		}
	}
	for i := range locks {
		sent := stamps[i]
		if d.server.flaws.lastStamp {
			sent = stamps[len(stamps)-1]
		}
		report(i, sent, answers[i])
	}
}

// releaseInSteps looks at the key, and then deletes it.
func (l *toyLock) releaseInSteps(ctx context.Context) (done bool, err error) {
	if mine, err := l.looks(ctx); err != nil || !mine {
		return false, err
	}
	return true, l.d.call(ctx, l.ttl, func(time.Time) { delete(l.d.server.keys, l.name) })
}

// breakInSteps looks at the key, and then takes it away from the owner that it has by then.
func (d *toyDriver) breakInSteps(
	ctx context.Context, key string, token locker.Token, b locker.Breach,
) (within time.Duration, found bool, err error) {
	if err := d.call(ctx, 0, func(now time.Time) {
		k := d.server.get(key, now)
		found = k != nil && k.token == token
	}); err != nil || !found {
		return 0, false, err
	}
	err = d.call(ctx, 0, func(now time.Time) {
		if k := d.server.get(key, now); k != nil {
			within, found = d.server.takeAway(key, k.token, b, now)
		}
	})
	return within, found, err
}

// takeAway is a break in one request.
func (d *toyDriver) takeAway(
	ctx context.Context, key string, token locker.Token, b locker.Breach,
) (within time.Duration, found bool, err error) {
	err = d.call(ctx, 0, func(now time.Time) { within, found = d.server.takeAway(key, token, b, now) })
	return within, found, err
}
