package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// Renew proves leases by one statement for each connection, at the same time. A lease that is
// attached to a waiter's connection is moved off it by its renewal. For those that wait, whose
// connections are busy, the shared connection asks whether they are still blocked.
func (d *pgDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	leases, moving := make(map[*conn][]int), make(map[int]*conn)
	var waiting []int
	for i, l := range locks {
		attached, waiter, queued := l.(*lock).attachment()
		switch {
		case attached == nil && queued:
			waiting = append(waiting, i)
		case attached == nil:
			report(i, 0, errOver)
		case attached == waiter:
			moving[i] = waiter
		default:
			leases[attached] = append(leases[attached], i)
		}
	}
	var all sync.WaitGroup
	for c, some := range leases {
		all.Go(func() {
			base, err := c.renew(ctx, pick(locks, some), c.confirm, c.LastAnswered)
			d.reportAll(ctx, locks, some, base, err, report)
		})
	}
	for i, waiter := range moving {
		all.Go(func() {
			l := locks[i].(*lock)
			base, err := waiter.renew(ctx, []*lock{l}, l.move, func() driver.Instant { return l.lateAnswer(waiter) })
			d.reportAll(ctx, locks, []int{i}, base, err, report)
		})
	}
	if len(waiting) > 0 {
		d.renewWaiting(ctx, locks, waiting, report)
	}
	all.Wait()
}

// reportAll reports the outcome of a renewal to the leases of one connection.
func (d *pgDriver) reportAll(
	ctx context.Context, locks []driver.Lock, some []int, base driver.Instant, err error,
	report func(int, driver.Instant, error),
) {
	leases, errs, proved := pick(locks, some), make([]error, len(some)), false
	for n, l := range leases {
		errs[n] = l.renewed(base, err)
		proved = proved || errs[n] == nil
	}
	var broken map[*lock]locker.Breach
	if proved {
		wanted := d.labels.wantedRows(leases)
		var unread map[*conn]bool
		broken, unread = d.labels.broken(ctx, leases)
		d.labels.renewed(wanted, unread)
	}
	for n, i := range some {
		if breach, isBroken := broken[leases[n]]; isBroken {
			report(i, 0, driver.Broken(breach))
		} else {
			report(i, base, errs[n])
		}
	}
}

// renew returns a base for leases that are attached to c, by asking the server. The answer may take
// longer than a renewal may: the server is busy, or another statement keeps this one waiting. Such
// an answer counts when it has come: the next renewal reports it. lastAnswered is when the last statement
// was sent that was answered for the leases, whichever caller sent it. It is the base as well where the error
// is that there was no answer in time: it may be news for some of the leases.
func (c *conn) renew(
	ctx context.Context, leases []*lock, ask func(context.Context) (driver.Instant, error),
	lastAnswered func() driver.Instant,
) (driver.Instant, error) {
	late := lastAnswered()
	isOld := func(l *lock) bool { return !l.isNews(late) }
	if c.overdue.Load() && !slices.ContainsFunc(leases, isOld) {
		c.overdue.Store(false)
		return late, nil
	}
	base, err := ask(ctx)
	silent := errors.Is(err, locker.ErrNoAnswer)
	c.overdue.Store(silent)
	if silent {
		base = lastAnswered()
	}
	if err != nil && pgsession.Ended(err) {
		err = asLoss(err)
	}
	return base, err
}

// isNews reports whether base is later than the grant and each renewal that was reported.
func (l *lock) isNews(base driver.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return base > l.base
}

// renewed notes the base that a renewal has found, and returns the error for this lease: a late answer renews
// those for which it is news.
func (l *lock) renewed(base driver.Instant, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, locker.ErrNoAnswer) && base > l.base {
		err = nil
	}
	if err == nil {
		l.base = max(l.base, base)
	}
	return err
}

// lateAnswer is the late answer of the waiter's connection that the lease is attached to. From step
// 3 of a move on the lease is attached to the shared connection as well, whose session's timeout
// may run from an earlier statement: then the older one of both counts.
func (l *lock) lateAnswer(waiter *conn) driver.Instant {
	sent := waiter.LastAnswered() // before the look at what the lease is attached to
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.attached != waiter: // none
		return l.base
	case l.alsoAttached != nil:
		return min(sent, l.alsoAttached.LastAnswered())
	}
	return sent
}

// renewWaiting looks whether the statements of waiters are still blocked. All locks of a call have
// one TTL.
func (d *pgDriver) renewWaiting(
	ctx context.Context, locks []driver.Lock, waiting []int,
	report func(int, driver.Instant, error),
) {
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
		switch {
		case l.waitsInOldEpoch(): // before anything else: what was asked was another server, maybe
			report(i, 0, asLoss(errOldEpoch))
		case err == nil:
			report(i, sent, l.checkBlocked(blocked))
		default:
			report(i, 0, err)
		}
	}
	if err == nil {
		d.labels.renewed(d.labels.wantedRows(pick(locks, waiting)), nil)
	}
}

// pick returns some of the locks of a renewal.
func pick(locks []driver.Lock, indexes []int) []*lock {
	some := make([]*lock, len(indexes))
	for i, at := range indexes {
		some[i] = locks[at].(*lock)
	}
	return some
}

// blockedAmong returns the server's processes that wait for an advisory lock. If the role
// of a process has changed since (SET ROLE), the server shows only that the process exists: then it
// counts as blocked.
func (d *pgDriver) blockedAmong(ctx context.Context, l *lock, pids []string) (map[int64]bool, error) {
	c, err := d.anyConn(ctx, l.ttl)
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

// waitsInOldEpoch reports whether the lock waits where the epoch is over, which may be a former primary. It
// doesn't wait any more if it was granted since: a lease there goes on.
func (l *lock) waitsInOldEpoch() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiter != nil && l.attached == nil && l.waiter.isOfOldEpoch()
}

// blockedPID is the process of the statement that waits; 0 if none does, or if its epoch is over.
func (l *lock) blockedPID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiter == nil || l.blocked == nil || l.waiter.isOfOldEpoch() {
		return 0
	}
	return l.waiter.PID
}

// checkBlocked takes in which processes are blocked. A waiter that isn't, and has no answer yet,
// was just granted the lock, as a rule. But when that is still so at the next look, the answer was
// lost, and the wait begins again.
func (l *lock) checkBlocked(blocked map[int64]bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiter == nil || l.blocked == nil || blocked[l.waiter.PID] {
		l.missedOnce = false
		return nil
	}
	select {
	case <-l.blocked.Done():
		return nil
	default:
	}
	if !l.missedOnce {
		l.missedOnce = true
		return nil
	}
	return fmt.Errorf("%w: the server's answer to the wait has not come", locker.ErrLost)
}
