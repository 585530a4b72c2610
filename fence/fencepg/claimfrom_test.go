package fencepg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fencepg"
	"github.com/fencedlock/locker/membackend"
)

// fakeTx notes what it is asked with, and lets every claim in.
type fakeTx struct {
	pgx.Tx
	args []any
}

func (tx *fakeTx) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	tx.args = args
	return outermost{}
}

// outermost is the answer to a claim outside of a savepoint.
type outermost struct{}

func (outermost) Scan(dest ...any) error {
	*dest[0].(*bool) = true
	return nil
}

func TestClaimFrom(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	tx := new(fakeTx)
	if err := fencepg.ClaimFrom(t.Context(), tx, "invoices/42"); !errors.Is(err, fence.ErrNoLease) || tx.args != nil {
		t.Errorf("ClaimFrom a context without a lease = %v after a request with %v, want ErrNoLease and none", err, tx.args)
	}
	err := locker.Do(t.Context(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		if err := fencepg.ClaimFrom(ctx, tx, "invoices/42"); err != nil {
			return err
		}
		if len(tx.args) != 2 || tx.args[0] != "invoices/42" || tx.args[1] != int64(lease.Token()) {
			t.Errorf("the claim was made with %v, want the resource and token %v", tx.args, lease.Token())
		}
		tx.args = nil
		if err := fencepg.ClaimFrom(ctx, tx, "invoices/42", fencepg.WithSchema("")); err == nil || tx.args != nil {
			t.Errorf("ClaimFrom with a bad option = %v after a request with %v, want its error and none", err, tx.args)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
