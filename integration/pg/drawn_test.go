//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
)

// Tokens drawn by many connections at the same time, while the server may crash.

// drawn contains the values that several callers have drawn from one source.
type drawn struct {
	mu      sync.Mutex
	highest int64
	n       int
	fallen  int    // of them
	example string // the worst one
	worst   int64
	err     error // the last one
	failed  time.Time
}

// draw records a value. It must be larger than all values that were drawn before its request.
func (d *drawn) draw(next func() (int64, error)) error {
	d.mu.Lock()
	before := d.highest
	d.mu.Unlock()
	value, err := next()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err, d.failed = err, time.Now()
		return err
	}
	d.n++
	d.highest = max(d.highest, value)
	if value <= before {
		d.fallen++
		if fall := before - value; d.example == "" || fall > d.worst {
			d.example, d.worst = fmt.Sprintf("%d after %d", value, before), fall
		}
	}
	return nil
}

func (d *drawn) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// failure is the last one to draw a value.
func (d *drawn) failure() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("%v ago one failed: %v", time.Since(d.failed).Round(time.Millisecond), d.err)
}

// repeated returns the number of values that were not larger than an earlier one, and the worst of
// these values.
func (d *drawn) repeated() (example string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.example, d.fallen
}

// drawToken holds a lock for a moment.
func drawToken(ctx context.Context, l locker.Locker, name string) (int64, error) {
	lease, err := locker.TryAcquire(ctx, l, name)
	if err != nil {
		return 0, err
	}
	_ = lease.Release(ctx)
	return int64(lease.Token()), nil
}

// drawInTx holds a lock for a transaction that writes nothing and is rolled back.
func drawInTx(ctx context.Context, l locker.Locker, conn *pgx.Conn, name string) (int64, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	token, err := concrete(l).LockTx(ctx, tx, name)
	return int64(token), errors.Join(err, tx.Rollback(ctx))
}

// drawUnderLoad continues until the case ends, even if operations fail.
func (s *Service) drawUnderLoad(t conformance.T, connections int, tokens, plain *drawn) {
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	base := step.LockName(t)
	for i := range connections {
		l := step.CloseAtEnd(t, s.open(t))
		for j := range 4 { // so that a Locker has several on the way
			name := fmt.Sprint(base, "-", i, "-", j)
			load.Go(func() {
				again(ctx, func() error { return tokens.draw(func() (int64, error) { return drawToken(ctx, l, name) }) })
			})
		}
		if i%4 == 0 {
			load.Go(func() {
				s.queries(ctx, func(conn *pgx.Conn) error {
					return tokens.draw(func() (int64, error) { return drawInTx(ctx, l, conn, fmt.Sprint(base, "-", i)) })
				})
			})
		}
		load.Go(func() {
			s.queries(ctx, func(conn *pgx.Conn) error {
				return plain.draw(func() (next int64, err error) { // some at once, as a Locker does under load
					err = conn.QueryRow(ctx, "select max(nextval('plain')) from generate_series(1, 8)").Scan(&next)
					return next, err
				})
			})
		})
	}
	for range 2 {
		load.Go(func() {
			s.queries(ctx, func(conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "insert into noise select repeat(md5(i::text), 3) from generate_series(1, 10) i")
				return err
			})
		})
	}
	t.Cleanup(func() { // before the Lockers are closed
		cancel()
		load.Wait()
	})
}
