package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

var errMixed = errors.New("the addresses lead to different clusters")

// check finds out whether the cluster fits, and what can be promised.
func (d *etcdDriver) check(ctx context.Context) error {
	for _, check := range []func(context.Context) error{d.survey, d.probe, d.countVoters, d.measure} {
		if err := check(ctx); err != nil {
			return etcdconn.Overdue(err)
		}
	}
	return nil
}

// surveyLimit is how long opening waits for the other members when one has answered.
const surveyLimit = time.Second

// survey finds out whether all members are of one cluster, and new enough. All but one may be
// silent: they may be down.
func (d *etcdDriver) survey(ctx context.Context) (err error) {
	members := d.cluster.Survey(ctx, surveyLimit)
	for i, m := range members {
		switch {
		case errors.Is(m.Err, etcdconn.ErrForeign) && i > 0:
			err = fmt.Errorf("%w: %s and %s", errMixed, members[0].Host, m.Host)
		case m.Err != nil && (i == 0 || errors.Is(m.Err, errors.ErrUnsupported)):
			err = m.Err
		case m.Err == nil:
			err = etcdconn.Join(err, kit.CheckVersion("etcd", m.Version, 3, 5))
		}
	}
	return err
}

// probe tries whether this user may do all that is needed, by a Txn that changes nothing:
// permissions are checked for both of its branches. It has as many compares as a renewal may have.
func (d *etcdDriver) probe(ctx context.Context) error {
	key := guardKeyOf(d.prefix, 0)
	all := clientv3.OpGet(d.prefix, clientv3.WithRange(endOf(d.prefix)), clientv3.WithCountOnly())
	never := slices.Repeat([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "<", 0)}, maxChecks)
	_, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt, never, []clientv3.Op{clientv3.OpPut(key, "")}, []clientv3.Op{all})
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("a permission is missing; want it granted, for example by etcdctl role grant-permission ROLE readwrite %q --prefix: %w", d.prefix, err)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: invalid --max-txn-ops of the members: want %d or more: %w", errors.ErrUnsupported, maxChecks, err)
	}
	return err
}

// countVoters finds out whether the cluster goes on, and the Locker with it, when a minority of the
// members is lost.
func (d *etcdDriver) countVoters(ctx context.Context) error {
	voters, err := d.cluster.CountVoters(ctx)
	if err != nil {
		return err
	}
	if why := fragile(d.cluster.Addresses(), voters); why != "" {
		d.guarantees.Tolerance = locker.ToleranceNone
		d.promiseLess(why)
	}
	return nil
}

// fragile says why the loss of a minority of the members may end the service. It is empty if the
// Locker knows the addresses of more members than a minority has. voters is 0 if the user may not list
// the members.
func fragile(named, voters int) string {
	switch {
	case voters == 0 && named < 3:
		return "fewer than three members are named, and this user may not list the members"
	case voters == 0:
		return ""
	case voters < 3:
		return "the cluster has fewer than three voting members"
	case named <= (voters-1)/2:
		return fmt.Sprintf("the Locker was given %d of the addresses of the cluster's %d voting members: name each of them", named, voters)
	}
	return ""
}

// promiseLess notes why the Locker promises less than [Guarantees].
func (d *etcdDriver) promiseLess(why string) {
	if d.guarantees.Because != "" {
		why = d.guarantees.Because + "; " + why
	}
	d.guarantees.Because = why
}

// elections is how many election timeouts a dead holder's lock may outlive its TTL, when the leader
// fails together with the holder and votes are split: a new leader gives it the whole TTL again. A
// leader that changes later isn't covered; see [locker.Expiry].
const elections = 7

// measure learns the shortest TTL, and from that about how long the cluster takes for an election:
// etcd makes the shortest TTL 1.5 election timeouts, rounded up to seconds.
func (d *etcdDriver) measure(ctx context.Context) error {
	shortest, err := d.cluster.Grant(ctx, etcdconn.MaxAttempt, time.Second, d.revokeOrphan)
	if err != nil {
		return err
	}
	d.revokeOrphan(shortest.ID)
	if shortest.TTL > ttls.Min {
		election := shortest.TTL * 2 / 3
		d.guarantees.Expiry.Slack = elections * election
		d.promiseLess(fmt.Sprintf("the cluster's election timeout is up to %v, because it grants no TTL shorter than %v",
			election.Round(100*time.Millisecond), shortest.TTL))
	}
	return nil
}

// hint adds to err that only one side may speak TLS, if that can be the reason.
func hint(err error) error {
	if errors.Is(err, locker.ErrNoAnswer) || etcdconn.Code(err) == codes.Unavailable {
		return fmt.Errorf("%w; a cluster with TLS needs etcds://, one without TLS etcd://", err)
	}
	return err
}
