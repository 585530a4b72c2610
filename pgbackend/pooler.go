package pgbackend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// checkPooler finds out whether there is a pooler between here and the server that gives each transaction another connection. It
// comes before any setting, because those would reach others there.
//
// The number by which a connection was introduced is that of its server process. A pooler introduces itself with one of its own, in
// all modes. Then a second test tells them apart: right after this one was used, and while it is not, another connection must not
// come to the same process in a transaction. A pooler without sessions gives each the process that was free last, as a rule, so that
// fails at once, unless somebody else has got it in between: then it has carried out a statement that is not this one's, which the
// server shows. One that chooses in another way sooner or later gives this one another process, or this one's to the other: hence the
// rounds.
func (c *conn) checkPooler(ctx context.Context, keyPID int64) error {
	if c.pid == keyPID || c.d.knowsPooler(c) {
		return nil
	}
	if until, limited := ctx.Deadline(); limited { // there must be time to say what is wrong
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)*3/4)
		defer cancel()
	}
	for try := 1; ; try++ {
		mixed, err := c.mixed(ctx)
		switch {
		case mixed:
			return fmt.Errorf("%w; connect to the server itself, or to a pool in session mode", ErrPooler)
		case err == nil:
			c.d.trustPooler(c)
			return nil
		case c.err() != nil || !isEnd(err) || try == maxStillborn: // else the second one's session was just ending
			return fmt.Errorf("what kind of pooler there is can't be found out; it may have no second connection to the server: %w", err)
		}
	}
}

// mixed compares c with a second connection, some times.
func (c *conn) mixed(ctx context.Context) (bool, error) {
	stream, _, err := c.d.dial(ctx)
	if err != nil {
		return false, fmt.Errorf("a second connection is needed for that: %w", err)
	}
	other := newWire(stream, func(error) {})
	defer func() { other.goodbye(ctx) }()
	for range poolerRounds {
		if mixed, err := c.mixedWith(ctx, other); mixed || err != nil {
			return mixed, err
		}
	}
	return false, nil
}

// poolerRounds is by far more than PgBouncer takes: ten that connect at the same time through one in transaction mode were let through
// in 21 of 400 tries by one round, and in none of 1,000 by two. A pooler that chooses at random may take more.
const poolerRounds = 6

// knowsPooler notes that c leads through a pooler, and reports whether that has passed the test. It counts until the last connection
// through it has ended: then it may have been restarted as another kind. Until then no connection needs a second one.
func (d *pgDriver) knowsPooler(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.pooler = c.net.RemoteAddr().String()
	_, known := d.poolers[c.pooler]
	return known
}

func (d *pgDriver) trustPooler(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open {
		d.poolers[c.pooler] = struct{}{}
	}
}

// mixedWith is one round: c asks, and then the other begins a transaction. The statement of c is like no other, so that it is known
// again; the server shows it to whoever may see what this role does, unless track_activities is off.
func (c *conn) mixedWith(ctx context.Context, other *wire) (bool, error) {
	asks := fmt.Sprintf("SELECT pg_catalog.pg_backend_pid(), %d", rand.Uint64())
	mine, err := c.exec(ctx, asks)
	if err != nil || mine.int(0, 0) != c.pid {
		return err == nil, err
	}
	theirs, err := other.do(ctx, "BEGIN; SELECT pg_catalog.pg_backend_pid()")
	if err != nil {
		return strings.Contains(err.Error(), "statement pooling"), err // PgBouncer in statement mode refuses transactions
	}
	if theirs.int(0, 0) == c.pid {
		return true, nil
	}
	last, err := other.do(ctx, fmt.Sprintf("SELECT state, query FROM pg_catalog.pg_stat_activity WHERE pid OPERATOR(pg_catalog.=) %d; COMMIT", c.pid))
	if err != nil {
		return false, err
	}
	shown := last.value(0, 1)
	return shown != "" && shown != asks && last.value(0, 0) != "disabled", nil
}
