package etcdconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What becomes of a request whose answer is an error, by how often gRPC has handed it to a
// connection: whether a copy of it may still be executed, and whether the error ends the request if
// the member is one of the cluster. What won't be executed any more was not executed before either, unless
// there is no space.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		why     string
		err     error
		handed  int32
		late    bool
		refused bool
	}{
		{"an answer", nil, 1, false, false},
		{"an answer, after a copy was sent", nil, 2, true, false},
		{"never sent: no connection", status.Error(codes.Unavailable, "connection refused"), 0, false, false},
		{"sent, and the connection broke", status.Error(codes.Unavailable, "error reading from server: EOF"), 1, true, false},
		{"sent, and no answer in time", status.Error(codes.DeadlineExceeded, "context deadline exceeded"), 1, true, false},
		{"sent, and no answer in time, as the client says it", context.DeadlineExceeded, 1, true, false},
		{"not sent in time", context.DeadlineExceeded, 0, false, false},
		{"no leader", rpctypes.ErrNoLeader, 1, false, false},
		{"timed out in the cluster", rpctypes.ErrTimeout, 1, true, false},
		{"timed out, maybe due to a leader that failed", rpctypes.ErrTimeoutDueToLeaderFail, 1, true, false},
		{"the leader changed", rpctypes.ErrLeaderChanged, 1, true, false},
		{"the member stops", rpctypes.ErrStopped, 1, true, false},
		{"a learner", rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), 1, false, false},
		{"no space", rpctypes.ErrNoSpace, 1, false, true},
		{"no space, after a copy was sent", rpctypes.ErrNoSpace, 2, true, true},
		{"no space, says a login", rpctypes.ErrNoSpace, 0, false, true},
		{"too many requests, which each member counts for itself", rpctypes.ErrTooManyRequests, 1, false, false},
		{"too many operations, by a setting of each member", rpctypes.ErrTooManyOps, 1, false, false},
		{"too large, by a setting of each member", rpctypes.ErrRequestTooLarge, 1, false, false},
		{"an answer that is too large for the client", status.Error(codes.ResourceExhausted, "received message larger than max"), 1, true, false},
		{"the etcd lease is gone", rpctypes.ErrLeaseNotFound, 1, false, true},
		{"a permission is missing", rpctypes.ErrPermissionDenied, 1, false, true},
		{"no user: the login may have gone to a cluster without users", rpctypes.ErrUserEmpty, 1, false, false},
		{"a wrong password: the login may have gone to another cluster", rpctypes.ErrAuthFailed, 1, false, false},
		{"403 of a proxy", status.Error(codes.PermissionDenied, "unexpected HTTP status Code received from server: 403 (Forbidden)"), 1, true, false},
		{"a server of something else", status.Error(codes.Unimplemented, "unknown service etcdserverpb.KV"), 1, true, false},
		{"a token that has expired", rpctypes.ErrInvalidAuthToken, 1, false, false},
		{"anything else", errors.New("?"), 1, true, false},
	} {
		var r call
		r.handed.Store(c.handed)
		if got := r.maybeLate(c.err); got != c.late {
			t.Errorf("%s: a copy may still be executed: %v, want %v", c.why, got, c.late)
		}
		if got, want := r.maybeDone(c.err), c.late || c.handed > 0 && errors.Is(c.err, rpctypes.ErrNoSpace); got != want {
			t.Errorf("%s: it may have been executed: %v, want %v", c.why, got, want)
		}
		if got := c.err != nil && refused(c.err); got != c.refused {
			t.Errorf("%s: refused: %v, want %v", c.why, got, c.refused)
		}
	}
}

// A time limit of the driver's own must not look like the caller's.
func TestOverdue(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded),
		status.Error(codes.DeadlineExceeded, "x"), status.Error(codes.Canceled, "x"),
	} {
		if got := Overdue(err); errors.Is(got, context.DeadlineExceeded) || errors.Is(got, context.Canceled) ||
			!strings.Contains(got.Error(), "no answer") {
			t.Errorf("of %v becomes %v, want one that speaks of no answer", err, got)
		}
	}
	if got := Overdue(rpctypes.ErrNoSpace); !errors.Is(got, rpctypes.ErrNoSpace) {
		t.Errorf("of another error becomes %v", got)
	}
}

// The last attempt is cut by the end of the time for all. That must not hide what the member had
// said.
func TestFailuresKeepWhatAMemberSaid(t *testing.T) {
	m := &member{addr: "http://a:1"}
	var f failures
	f.add(m, ErrForeign, false)
	f.add(m, context.DeadlineExceeded, true)
	if err := f.err(1); !errors.Is(err, ErrForeign) {
		t.Errorf("the error is %q, want what the member said before its time was over", err)
	}
	f.add(m, context.DeadlineExceeded, false)
	if err := f.err(1); errors.Is(err, ErrForeign) {
		t.Errorf("the error is %q, want that the member is silent now", err)
	}
}

// Members that will never serve are no reason to give up while another one may serve later.
func TestMembersThatAreRefusedForEver(t *testing.T) {
	for _, c := range []struct {
		proxies, members int
		lasting          bool
	}{{1, 1, true}, {1, 2, false}, {1, 3, false}, {2, 3, false}, {3, 3, true}} {
		var f failures
		for i := range c.members {
			err := context.DeadlineExceeded
			if i < c.proxies {
				err = errProxy
			}
			f.add(&member{addr: fmt.Sprint("http://a:", i)}, err, false)
		}
		err := f.err(c.members)
		if errors.Is(err, errors.ErrUnsupported) != c.lasting || !strings.Contains(err.Error(), "grpc-proxy") {
			t.Errorf("%d of %d members are proxies: %v, want an error that no wait can change: %v", c.proxies, c.members, err, c.lasting)
		}
	}
}
