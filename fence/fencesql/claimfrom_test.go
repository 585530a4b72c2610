package fencesql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencesql"
	"github.com/fencedlock/locker/membackend"
)

// fakeDB is a database that notes what it is asked with, and lets every claim in.
type fakeDB struct{ args []driver.Value }

func (db *fakeDB) Connect(context.Context) (driver.Conn, error) { return fakeConn{db}, nil }
func (db *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct{ db *fakeDB }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return fakeStmt(c), nil }
func (c fakeConn) Begin() (driver.Tx, error)           { return c, nil }
func (fakeConn) Close() error                          { return nil }
func (fakeConn) Commit() error                         { return nil }
func (fakeConn) Rollback() error                       { return nil }

type fakeStmt struct{ db *fakeDB }

func (fakeStmt) Close() error                               { return nil }
func (fakeStmt) NumInput() int                              { return -1 }
func (fakeStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }

func (s fakeStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.db.args = args
	return &outermost{}, nil
}

// outermost is the answer to a claim outside of a savepoint: one row that says true.
type outermost struct{ read bool }

func (*outermost) Columns() []string { return []string{"outermost"} }
func (*outermost) Close() error      { return nil }

func (r *outermost) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0] = true
	return nil
}

func TestClaimFrom(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	fake := new(fakeDB)
	db := sql.OpenDB(fake)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := fencesql.ClaimFrom(t.Context(), tx, "invoices/42"); !errors.Is(err, fence.ErrNoLease) || fake.args != nil {
		t.Errorf("ClaimFrom a context without a lease = %v after a request with %v, want ErrNoLease and none", err, fake.args)
	}
	err = locker.Do(t.Context(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		if err := fencesql.ClaimFrom(ctx, tx, "invoices/42"); err != nil {
			return err
		}
		if want := []driver.Value{"invoices/42", int64(lease.Token())}; !slices.Equal(fake.args, want) {
			t.Errorf("the claim was made with %v, want %v", fake.args, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
