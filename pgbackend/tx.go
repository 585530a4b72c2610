package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// LockTx takes the lock on name for a transaction of the caller's, which holds it until the
// transaction is committed or rolled back (also to a savepoint from before the call), and returns
// the fencing token. It waits until it has the lock or ctx is done. The lock excludes the leases of
// all Lockers with the same database, schema and prefix, and they exclude it.
//
// The Locker's database must be the one that tx is in: the token is taken on a connection of the
// Locker, which makes sure that no token is given out again after a crash.
// No other connection is needed, so tx may come through PgBouncer in transaction mode, when the
// Locker doesn't.
//
// In what [locker.Open] returned, [locker.AsLocker] finds the Locker, also inside decorators that
// only observe:
//
//	l, _ := locker.Open(ctx, "postgres://pg.example/app")
//	pg, ok := locker.AsLocker[*pgbackend.Locker](l)
//
// The transaction is the holder: to ask again in the same one gives a new, larger token. Its
// lock_timeout and statement_timeout don't bound the wait, and are what they were when LockTx
// returns. When ctx ends during the wait, pgx closes the connection of tx. After an error the
// transaction may hold the lock anyway, and should be rolled back.
//
// A transaction of the level REPEATABLE READ or SERIALIZABLE is refused with [errors.ErrUnsupported]:
// its snapshot is taken by the first statement, which is the request for the lock, so it might not
// see what the last holder has committed. Postgres ends such a transaction with a serialization error
// if it changes a row that the last holder has changed. What it has only read is checked at SERIALIZABLE,
// and only if the last holder was SERIALIZABLE too.
//
// A transaction can also end without the Commit of tx: by a Begin on tx.Conn() that is committed, or by
// a script with COMMIT. The lock ends with it. Statements that follow are executed without the lock.
//
// The lock has no TTL. A holder that is stopped or cut off in its transaction excludes all others
// until the server ends its session, which may take hours, or never happen. Bound that in the
// transaction by idle_in_transaction_session_timeout and tcp_user_timeout (SET LOCAL), or by
// transaction_timeout, which Postgres has since 17. PREPARE TRANSACTION keeps the lock, also over
// restarts of the server, until COMMIT PREPARED or ROLLBACK PREPARED.
//
// It is not reentrant either: if ctx comes from the lease of this very lock ([locker.Do],
// [locker.WithLease]), the transaction would wait for its own caller, and the error matches
// [locker.ErrHeldByCaller].
//
// A wait that ran out of time matches [locker.ErrHeld] and [context.DeadlineExceeded], a bad name
// [locker.ErrName], and a closed Locker [locker.ErrClosed]. The error is a [*locker.Error].
//
// The token has no token base ([locker.TokenBase]): a fence that gets tokens with one refuses it.
func (l *Locker) LockTx(ctx context.Context, tx pgx.Tx, name string) (locker.Token, error) {
	return l.lockTx(ctx, tx, name, true)
}

// TryLockTx is LockTx without waiting: the error matches [locker.ErrHeld] at once when somebody
// else has the lock.
func (l *Locker) TryLockTx(ctx context.Context, tx pgx.Tx, name string) (locker.Token, error) {
	return l.lockTx(ctx, tx, name, false)
}

func (l *Locker) lockTx(ctx context.Context, tx pgx.Tx, name string, wait bool) (locker.Token, error) {
	token, err := locker.Token(0), locker.ValidName(name)
	if err == nil && l.heldByCaller(ctx, name) {
		err = locker.ErrHeldByCaller
	}
	if err == nil {
		token, err = l.d.lockTx(ctx, tx, name, wait)
	}
	if err != nil {
		return 0, &locker.Error{Op: "acquire", Backend: backend, Name: name, Err: err}
	}
	return token, nil
}

// heldByCaller asks the engine, which has the leases, whether ctx comes from one on name.
func (l *Locker) heldByCaller(ctx context.Context, name string) bool {
	engine, ok := l.Locker.(interface {
		HeldByCaller(ctx context.Context, name string) bool
	})
	return ok && engine.HeldByCaller(ctx, name)
}

func (d *pgDriver) lockTx(ctx context.Context, tx pgx.Tx, name string, wait bool) (locker.Token, error) {
	k := d.keyOf(string(d.schema), d.prefix, name)
	home, err := d.tryTx(ctx, tx, k)
	if wait && errors.Is(err, locker.ErrHeld) {
		err = waitTx(ctx, tx, k)
	}
	if err != nil {
		return 0, err
	}
	token, err := d.tokenFor(ctx, home)
	// A transaction that has ended meanwhile had lost the lock before its token was taken: the
	// token may be larger than the next holder's.
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT", pgx.QueryExecModeExec)
		err = callerGaveUp(ctx, err)
	}
	return token, err
}

// tryTx asks for the lock, where the Locker's connection leads. If the server was restarted since,
// that can't be known before.
func (d *pgDriver) tryTx(ctx context.Context, tx pgx.Tx, k key) (home serverID, err error) {
	for try := 1; ; try++ {
		c, err := d.txConn(ctx)
		if err != nil {
			return home, err
		}
		err = tryTx(ctx, tx, k, c.tokens.serverID)
		if !errors.Is(err, errElsewhere) || try == maxTries {
			return c.tokens.serverID, err
		}
		limited, cancel := context.WithTimeout(ctx, maxCall) // without this, the end of the connection may never be noticed
		_, gone := c.confirm(limited)
		cancel()
		if gone == nil {
			return home, err
		}
	}
}

// tokenFor takes a token for a lock that is held on a server. After a long wait the earlier connection
// may have ended. Or a restore has replaced the sequence: only a new connection finds the new one, and
// its tokens are of a later epoch.
func (d *pgDriver) tokenFor(ctx context.Context, home serverID) (locker.Token, error) {
	for try := 1; ; try++ {
		c, err := d.txConn(ctx)
		if err != nil {
			return 0, err
		}
		if !c.tokens.serverID.hasLocksOf(home) {
			return 0, errElsewhere
		}
		token, err := c.takeToken(ctx)
		if err == nil || c.isOpen() && !c.isSilent() && !errors.Is(err, errWithdrawn) || try == maxTries {
			return token, err
		}
	}
}

// txConn returns a shared connection, if possible the one of the default TTL.
func (d *pgDriver) txConn(ctx context.Context) (*conn, error) {
	c, err := d.anyConn(ctx, d.ttl)
	return c, callerGaveUp(ctx, err)
}

var errElsewhere = errors.New("the transaction is on another server, or in another database, than the Locker")

// tryTx asks for the lock, if the transaction is where the Locker is: elsewhere the lock would
// exclude nobody.
func tryTx(ctx context.Context, tx pgx.Tx, k key, home serverID) error {
	var answer string
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT CASE
		WHEN pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY ('{repeatable read,serializable}') THEN 'snapshot'
		WHEN pg_catalog.pg_is_in_recovery() THEN 'standby'
		WHEN (SELECT system_identifier FROM pg_catalog.pg_control_system()) OPERATOR(pg_catalog.<>) %d THEN 'elsewhere'
		WHEN %s OPERATOR(pg_catalog.<>) %d THEN 'elsewhere'
		WHEN (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) OPERATOR(pg_catalog.<>) %d THEN 'elsewhere'
		WHEN pg_catalog.pg_try_advisory_xact_lock(%s) THEN 'granted'
		ELSE 'held' END`, home.system, startOfServer, home.started, home.database, k.lock()), pgx.QueryExecModeExec).Scan(&answer)
	switch {
	case err != nil:
		return tableIsFull(callerGaveUp(ctx, err))
	case answer == "held":
		return locker.ErrHeld
	case answer == "snapshot":
		return fmt.Errorf("%w: at REPEATABLE READ and SERIALIZABLE the transaction may not see what the lock's last holder has committed; begin it as READ COMMITTED", errors.ErrUnsupported)
	case answer == "standby":
		return errors.New("the transaction is on a standby, whose locks don't exclude the clients of the primary")
	case answer == "elsewhere":
		return errElsewhere
	}
	return nil
}

// waitTx waits for the lock, first at its gate as all others that wait. The gate stays closed as
// well until the transaction ends, which changes nothing for the others.
func waitTx(ctx context.Context, tx pgx.Tx, k key) error {
	const set = "SELECT pg_catalog.set_config('lock_timeout', $1, true), pg_catalog.set_config('statement_timeout', $2, true)"
	var lockTimeout, statementTimeout string
	err := tx.QueryRow(ctx, "SELECT pg_catalog.current_setting('lock_timeout'), pg_catalog.current_setting('statement_timeout')",
		pgx.QueryExecModeExec).Scan(&lockTimeout, &statementTimeout)
	if err == nil {
		_, err = tx.Exec(ctx, set, pgx.QueryExecModeExec, "0", "0")
	}
	if err == nil {
		_, err = tx.Exec(ctx, fmt.Sprintf("SELECT CASE WHEN pg_catalog.pg_advisory_xact_lock(%s) IS NOT NULL"+
			" THEN pg_catalog.pg_advisory_xact_lock(%s) END", k.gate(), k.lock()), pgx.QueryExecModeExec)
	}
	if err == nil {
		_, err = tx.Exec(ctx, set, pgx.QueryExecModeExec, lockTimeout, statementTimeout)
		return callerGaveUp(ctx, err)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", locker.ErrHeld, callerGaveUp(ctx, err))
	}
	return tableIsFull(callerGaveUp(ctx, err))
}

// callerGaveUp is kit.GaveUp, and nil for nil.
func callerGaveUp(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return kit.GaveUp(ctx, err)
}
