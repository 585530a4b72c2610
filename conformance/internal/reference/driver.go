package reference

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// refDriver implements [driver.Driver].
type refDriver struct {
	*client
	prefix string
}

var (
	_ driver.Driver      = (*refDriver)(nil)
	_ driver.TokenReader = (*refDriver)(nil)
	_ driver.Lock        = (*lock)(nil)
)

// ttls has the shortest TTL: the allowance for clocks takes 2 ms.
var ttls = kit.TTLBounds{Min: 5 * time.Millisecond}

// maxLimit and timeLimit bound a call, so that a renewal without an answer leaves time for others
// before the TTL is over.
const maxLimit = 2 * time.Second

func timeLimit(ttl time.Duration) time.Duration { return min(ttl/6, maxLimit) }

func (d *refDriver) Guarantees() locker.Guarantees { return d.service.dialect.guarantees() }

func (d *refDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := ttls.Check(req.TTL); err != nil {
		return nil, err
	}
	l := &lock{client: d.client, noWait: req.NoWait, lost: lost, ready: make(chan struct{})}
	l.claim = claim{key: d.steps.key(d.prefix, req.Name), owner: d.steps.owner(d.client), ttl: req.TTL}
	return l, nil
}

// Renew is one request for all locks.
func (d *refDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	own := make([]*lock, len(locks))
	for i, l := range locks {
		own[i] = l.(*lock)
	}
	_ = d.steps.renew(d.client, ctx, own, report) // each lock has its report
}

// renew reports for each lock. The error says that there was no answer.
func (c *client) renew(ctx context.Context, locks []*lock, report func(int, driver.Instant, error)) error {
	q := request{verb: renew, claims: make([]claim, len(locks))}
	limit := maxLimit
	for i, l := range locks {
		q.claims[i] = l.claim
		limit = min(limit, timeLimit(l.claim.ttl))
	}
	q.sent = driver.Stamp()
	r, err := c.steps.call(c, ctx, limit, q)
	for i, l := range locks {
		if err != nil {
			report(i, 0, err)
			continue
		}
		base, err := c.steps.renewed(l, r.answers[i], q.sent)
		report(i, base, err)
	}
	return err
}

// CurrentToken is one request.
func (d *refDriver) CurrentToken(ctx context.Context, name string, _ int) (locker.Token, error) {
	r, err := d.steps.call(d.client, ctx, maxLimit, request{verb: current, claims: []claim{{key: d.steps.currentKey(d.prefix, name)}}})
	if err != nil {
		return 0, err
	}
	return r.answers[0].token, nil
}

// Close ends the connection.
func (d *refDriver) Close(context.Context) error {
	d.close()
	return nil
}

// key makes a key of a prefix and a name. No two pairs have the same key: the length says where the
// prefix ends.
func key(prefix, name string) string { return fmt.Sprintf("%d/%s%s", len(prefix), prefix, name) }

func newOwner(*client) string { return driver.NewOwner() }
