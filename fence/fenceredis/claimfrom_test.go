package fenceredis_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	"github.com/fencedlock/locker/membackend"
)

// recorder notes the arguments of scripts, and lets every claim in.
type recorder struct {
	redis.Scripter
	args []any
}

func (r *recorder) EvalSha(ctx context.Context, _ string, _ []string, args ...any) *redis.Cmd {
	r.args = args
	cmd := redis.NewCmd(ctx)
	cmd.SetVal(int64(1))
	return cmd
}

func TestClaimFrom(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	sent := new(recorder)
	mark := fenceredis.Mark{Client: sent, Key: "{invoice:42}:fence"}
	if token, err := mark.ClaimFrom(t.Context()); token != 0 || !errors.Is(err, fence.ErrNoLease) || sent.args != nil {
		t.Errorf("ClaimFrom a context without a lease = %v, %v after a request with %v, want ErrNoLease and none", token, err, sent.args)
	}
	err := locker.Do(t.Context(), l, "invoices/42", func(ctx context.Context, lease locker.Lease) error {
		token, err := mark.ClaimFrom(ctx)
		if token != lease.Token() || err != nil {
			t.Errorf("ClaimFrom = %v, %v, want %v", token, err, lease.Token())
		}
		if len(sent.args) != 1 || sent.args[0] != int64(lease.Token()) {
			t.Errorf("the claim was made with %v, want token %v", sent.args, lease.Token())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
