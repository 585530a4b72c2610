package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// Renew proves leases by one statement for each connection, side by side; a lease that hangs on a waiter's connection is moved off it
// by that. For those who wait, whose connections are busy, the shared one asks whether they still do.
func (d *pgDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	leases, moving := make(map[*conn][]int), make(map[int]*conn)
	var waiting []int
	for i, l := range locks {
		hangs, own, queued := l.(*lock).standing()
		switch {
		case hangs == nil && queued:
			waiting = append(waiting, i)
		case hangs == nil:
			report(i, 0, errOver)
		case hangs == own:
			moving[i] = own
		default:
			leases[hangs] = append(leases[hangs], i)
		}
	}
	var all sync.WaitGroup
	for c, some := range leases {
		all.Go(func() {
			base, err := renewOn(ctx, c)
			for _, i := range some {
				report(i, base, err)
			}
		})
	}
	for i, own := range moving {
		all.Go(func() {
			base, err := locks[i].(*lock).renewMoving(ctx, own)
			report(i, base, err)
		})
	}
	if len(waiting) > 0 {
		d.renewWaiting(ctx, locks, waiting, report)
	}
	all.Wait()
}

func (l *lock) standing() (hangs, own *conn, queued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hangs, l.own, l.queued
}

// renewOn asks whether the session of leases stands.
func renewOn(ctx context.Context, c *conn) (driver.Instant, error) {
	return c.renew(ctx, c.stands, c.lateAnswer)
}

// renewMoving moves a lease off its waiter's connection, or renews it there.
func (l *lock) renewMoving(ctx context.Context, own *conn) (driver.Instant, error) {
	return own.renew(ctx, l.move, func() (driver.Instant, bool) { return l.lateAnswer(own) })
}

// renew returns a base for leases that hang on c, by asking the server. A busy server, or a statement that keeps this one waiting, may take
// longer for the answer than a renewal may take; then it counts when it has come.
func (c *conn) renew(ctx context.Context, ask func(context.Context) (driver.Instant, error), lateAnswer func() (driver.Instant, bool)) (driver.Instant, error) {
	late, news := lateAnswer()
	if news && c.overdue.Swap(false) {
		c.base.Store(int64(late))
		return late, nil
	}
	base, err := ask(ctx)
	c.overdue.Store(errors.Is(err, pgsession.ErrNoAnswer))
	if late, news = lateAnswer(); news && errors.Is(err, pgsession.ErrNoAnswer) {
		base, err = late, nil
	}
	if err == nil {
		c.base.Store(int64(base))
	}
	return base, final(err)
}

// lateAnswer is when the last statement was sent that was answered on this connection, and so by its session, for whomever. It is news
// when no renewal has reported it.
func (c *conn) lateAnswer() (sent driver.Instant, news bool) {
	sent = c.LastAnswered()
	return sent, int64(sent) > c.base.Load()
}

// lateAnswer is that of the waiter's connection on which the lease hangs. From step 3 of a move on the lease hangs on the shared connection as
// well, whose session's timeout may run from an earlier statement: then the older one of both counts.
func (l *lock) lateAnswer(own *conn) (sent driver.Instant, news bool) {
	sent, _ = own.lateAnswer() // before it is looked at what the lease hangs on
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heir != nil {
		sent = min(sent, l.heir.LastAnswered())
	}
	return sent, l.hangs == own && int64(sent) > own.base.Load()
}

// renewWaiting looks whether the statements of waiters are still blocked. All locks of a call have one TTL.
func (d *pgDriver) renewWaiting(ctx context.Context, locks []driver.Lock, waiting []int, report func(int, driver.Instant, error)) {
	pids := make([]string, 0, len(waiting))
	for _, i := range waiting {
		if pid := locks[i].(*lock).blockedPID(); pid != 0 {
			pids = append(pids, fmt.Sprint(pid))
		}
	}
	sent := driver.Stamp()
	blocked, err := make(map[int64]bool), error(nil)
	if len(pids) > 0 {
		blocked, err = d.blockedAmong(ctx, locks[waiting[0]].(*lock), pids)
	}
	for _, i := range waiting {
		l := locks[i].(*lock)
		if err == nil {
			report(i, sent, l.seen(blocked))
		} else {
			report(i, 0, err)
		}
	}
}

// blockedAmong returns those of the server's processes that wait for an advisory lock. Of a role that has changed since (SET ROLE)
// nothing is to be seen but that the process is there.
func (d *pgDriver) blockedAmong(ctx context.Context, l *lock, pids []string) (map[int64]bool, error) {
	c, err := l.conn(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.execUrgent(ctx, "SELECT pid FROM pg_stat_activity WHERE pid IN ("+strings.Join(pids, ", ")+
		") AND (wait_event_type = 'Lock' OR state IS NULL)")
	if err != nil {
		return nil, err
	}
	blocked := make(map[int64]bool)
	for i := range r.Rows {
		blocked[r.Int(i, 0)] = true
	}
	return blocked, nil
}

// blockedPID is the process of the statement that waits; 0 if none does.
func (l *lock) blockedPID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil || l.blocked == nil {
		return 0
	}
	return l.own.PID
}

// seen takes in which processes are blocked. A waiter that isn't, and has no answer yet, was just granted the lock, as a rule. But
// when that is still so at the next look, the answer was lost, and the wait begins anew.
func (l *lock) seen(blocked map[int64]bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil || l.blocked == nil || blocked[l.own.PID] {
		l.unseen = false
		return nil
	}
	select {
	case <-l.blocked.Done():
		return nil
	default:
	}
	if !l.unseen {
		l.unseen = true
		return nil
	}
	return fmt.Errorf("%w: the server's answer to the wait has not come", locker.ErrLost)
}

// final tells an error that leaves hope from the end of a connection.
func final(err error) error {
	if err != nil && pgsession.Ended(err) {
		return lostWith(err)
	}
	return err
}
