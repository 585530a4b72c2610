package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// oldest is the first version that is known to do what is relied upon here.
var oldest = []int{3, 5}

// open finds out whether the cluster fits, and what can be promised.
func (d *etcdDriver) open(ctx context.Context) error {
	if err := d.survey(ctx); err != nil {
		return err
	}
	if err := d.probe(ctx); err != nil {
		return err
	}
	if err := d.countVoters(ctx); err != nil {
		return err
	}
	return d.measure(ctx)
}

// countVoters finds out whether the cluster goes on when it has lost a member. A user that may not
// ask for the members has to be content with those whose addresses are known here.
func (d *etcdDriver) countVoters(ctx context.Context) error {
	voters := 0
	_, err := d.server.try(ctx, maxAttempt, func(ctx context.Context, m *member) error {
		list, err := m.cluster.MemberList(ctx, &pb.MemberListRequest{}, options(ctx)...)
		if err == nil {
			err = d.server.ours(m, list.Header)
		}
		if err != nil {
			return err
		}
		voters = 0
		for _, one := range list.Members {
			if !one.IsLearner {
				voters++
			}
		}
		return nil
	})
	if code(err) == codes.PermissionDenied {
		voters, err = len(d.server.client.Endpoints()), nil
	}
	if voters < 3 {
		d.guarantees.Tolerance = locker.ToleranceNone
	}
	return err
}

// checkVersion lets versions pass that can't be read.
func checkVersion(text string) error {
	var version []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		version = append(version, n)
	}
	if len(version) >= 2 && slices.Compare(version, oldest) < 0 {
		return fmt.Errorf("%w: etcd %s is older than %d.%d", errors.ErrUnsupported, text, oldest[0], oldest[1])
	}
	return nil
}

// probe tries whether this user may do all that is needed, by a Txn that changes nothing: permissions are checked for
// both of its branches. It has as many compares as a renewal may have.
func (d *etcdDriver) probe(ctx context.Context) error {
	key := guardOf(d.prefix, 0)
	all := clientv3.OpGet(d.prefix, clientv3.WithRange(endOf(d.prefix)), clientv3.WithCountOnly())
	never := slices.Repeat([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "<", 0)}, maxChecks)
	_, err := d.server.txn(ctx, maxAttempt, never, []clientv3.Op{clientv3.OpPut(key, "")}, []clientv3.Op{all})
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("a permission is missing (role grant-permission ROLE readwrite %q --prefix): %w", d.prefix, err)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: the members' --max-txn-ops is below %d: %w", errors.ErrUnsupported, maxChecks, err)
	}
	return err
}

// measure learns the shortest TTL, and by that about how long the cluster takes for an election: etcd makes it 1.5
// election timeouts, rounded up to seconds.
func (d *etcdDriver) measure(ctx context.Context) error {
	g, err := d.server.grant(ctx, maxAttempt, 1, d.revokeLater)
	if err != nil {
		return err
	}
	d.revokeLater(g.id)
	if g.ttl > minTTL {
		d.guarantees.Expiry.Slack = elections * (g.ttl * 2 / 3)
	}
	return nil
}

// elections is how many election timeouts a dead holder's lock may outlive its TTL, when the leader
// fails together with the holder and votes are split: a new leader gives it the whole TTL again. A
// leader that changes later isn't covered; see locker.Expiry.
const elections = 7

// openAll is open within a limit, with errors that a user can do something about.
func (d *etcdDriver) openAll(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	err := d.open(limited)
	if err == nil {
		return nil
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	d.done = nil // the caller's
	_ = d.Close(closing)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
	}
	return hint(overdue(err))
}
