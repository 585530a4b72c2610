package etcdconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/locker"
)

var (
	// ErrForeign says that a member of another cluster has answered, or refused.
	ErrForeign = errors.New("a member of another cluster")

	// ErrBehind says that a member has not applied yet what the request refers to.
	ErrBehind = errors.New("the member is behind the others")

	errProxy   = fmt.Errorf("%w: etcd grpc-proxy, or something else that doesn't answer as a member does", errors.ErrUnsupported)
	errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)
)

// Code returns the gRPC code of an error, also of an error that the client has made its own.
func Code(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	s, ok := status.FromError(err)
	if !ok {
		return codes.Unknown
	}
	return s.Code()
}

// rejected reports whether err is a refusal, from whichever server: it makes no difference to ask
// the same server again.
func rejected(err error) bool {
	if isTokenUnknown(err) || errors.Is(err, errLearner) || errors.Is(err, rpctypes.ErrTooManyRequests) {
		return false // the next attempt has another login; others have a vote; the member gets over it
	}
	switch Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	case codes.ResourceExhausted: // without etcd's words it is the client's own limit for messages
		return isEtcdText(err)
	}
	return false
}

// refused reports whether err says no in the words of etcd: nothing will be executed any more. If it
// comes from a member of the own cluster, all others say the same. verifyRefusal finds out whether it
// does: a member of another cluster uses the same words, and other servers have codes that look like
// them.
func refused(err error) bool {
	return rejected(err) && isEtcdText(err) && !isLogin(err) && !isLimitOfMember(err)
}

func isEtcdText(err error) bool {
	var known rpctypes.EtcdError
	return errors.As(err, &known)
}

// isLogin reports whether err may come from a login. The client logs in at any address, one after
// the other, whichever member the request is for. Where it has logged in at a cluster without
// users, it has no token, and a member takes that for no user.
func isLogin(err error) bool {
	return isTokenUnknown(err) || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// isLimitOfMember reports whether err is about a limit that each member has for itself: others may
// have another one.
func isLimitOfMember(err error) bool {
	return errors.Is(err, rpctypes.ErrTooManyRequests) || errors.Is(err, rpctypes.ErrTooManyOps) ||
		errors.Is(err, rpctypes.ErrRequestTooLarge)
}

// settled reports whether err says that the request won't be executed from now on, though another
// member may be asked.
func settled(err error) bool {
	return refused(err) || isLogin(err) || isLimitOfMember(err) || errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, errLearner)
}

// IsNoSpace reports whether err says that the cluster has no space. A request that writes and gets this
// error was perhaps executed: a member that finds the quota used up when it executes a request does so, and
// then gives the error (etcdserver/apply/quota.go, quotaApplierV3). The error is the same as before a
// request is passed on, and while the alarm is raised. Then nothing is executed.
func IsNoSpace(err error) bool { return errors.Is(err, rpctypes.ErrNoSpace) }

// isTokenUnknown reports whether a member doesn't know the client's token: it has expired, and the
// client has got a new one by now, or the member hasn't heard of the token yet.
func isTokenUnknown(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// IsOverdue reports whether a time limit has ended the request.
func IsOverdue(err error) bool {
	code := Code(err)
	return code == codes.DeadlineExceeded || code == codes.Canceled ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Overdue makes [locker.ErrNoAnswer] of an error that says that a time limit has ended the request, in
// gRPC's words, too: an error that matches a context's error says that the caller gave up.
func Overdue(err error) error {
	if IsOverdue(err) {
		return locker.ErrNoAnswer
	}
	return err
}

// failures is why members could not serve a request: the latest reason of each, in the order in
// which they were asked.
type failures struct {
	members []*member
	reasons reasons
}

// add notes why m could not serve a request. cut says that the time for all members was over then: if
// that is the only reason, one that m has given before says more.
func (f *failures) add(m *member, err error, cut bool) {
	err = Overdue(err)
	silent := errors.Is(err, locker.ErrNoAnswer)
	if silent {
		err = fmt.Errorf("%w from %s", err, m.host())
	}
	if i := slices.Index(f.members, m); i >= 0 {
		if !silent || !cut {
			f.reasons[i] = err
		}
		return
	}
	f.members, f.reasons = append(f.members, m), append(f.reasons, err)
}

// err is the error of a request that none of the cluster's members has served.
func (f *failures) err(members int) error {
	f.excuse(members)
	err := Join(slices.Clone(f.reasons)...)
	if IsExchanged(err) {
		err = fmt.Errorf("%w; if the cluster was exchanged, open the locker again", err)
	}
	return err
}

// excuse leaves only the texts of reasons that no wait can change, unless all members give such a reason: one
// member is enough for a client, and the call may succeed when others can be reached again.
func (f *failures) excuse(members int) {
	lasting := func(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
	n := 0
	for i := range f.members {
		if lasting(f.reasons[i]) {
			n++
		}
	}
	for i := range f.members {
		if n < members && lasting(f.reasons[i]) {
			f.reasons[i] = errors.New(f.reasons[i].Error())
		}
	}
}

// IsExchanged reports whether most members that were asked are of another cluster.
func IsExchanged(err error) bool {
	var all reasons
	if !errors.As(err, &all) {
		return errors.Is(err, ErrForeign)
	}
	foreign := 0
	for _, one := range all {
		if errors.Is(one, ErrForeign) {
			foreign++
		}
	}
	return foreign > len(all)/2
}

// reasons is several errors. Its text is one line, unlike the text of errors.Join.
type reasons []error

// Join leaves out what is nil. It is nil if nothing is left.
func Join(errs ...error) error {
	all := slices.DeleteFunc(reasons(errs), func(err error) bool { return err == nil })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

func (r reasons) Error() string {
	texts := make([]string, len(r))
	for i, err := range r {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (r reasons) Unwrap() []error { return r }
