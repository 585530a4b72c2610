package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errDeleted    = errors.New("its key is gone: it was deleted, or the etcd lease it hung on was revoked or has expired")
	errNoAnswer   = errors.New("no answer in time")
	errClosing    = errors.New("no answer before the locker was closed")
	errSuperseded = errors.New("the cluster's leader changes too fast to prove the lease anew")
	errLagging    = errors.New("the member is behind the others")
	errForeign    = errors.New("a member of another cluster")
	errMixed      = errors.New("the addresses lead to different clusters")
	errProxy      = fmt.Errorf("%w: etcd grpc-proxy, or something else that doesn't answer as a member does", errors.ErrUnsupported)

	errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)
)

// code is the gRPC code of an error, also of those that the client has made its own.
func code(err error) codes.Code {
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

// refused reports whether err is the answer of a member that has executed nothing, and won't: it
// makes no difference whom one asks, or how often.
func refused(err error) bool {
	if errors.Is(err, errLearner) || unknownToken(err) {
		return false // others have a vote; the next try has another token
	}
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented:
		return true
	case codes.ResourceExhausted:
		var known rpctypes.EtcdError // no space, too many requests; without it, the client's own limit for messages
		return errors.As(err, &known)
	}
	return false
}

// undone reports whether err says that nothing was executed, though somebody else may be asked.
func undone(err error) bool {
	return refused(err) || unknownToken(err) || errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, errLearner)
}

// unknownToken reports whether a member doesn't know the client's token: it has expired, and the client has got a new one
// by now, or the member hasn't heard of it yet.
func unknownToken(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

func isLeaseNotFound(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// isOverdue reports whether a time limit has ended the request.
func isOverdue(err error) bool {
	c := code(err)
	return c == codes.DeadlineExceeded || c == codes.Canceled ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// overdue makes errNoAnswer of the end of a time limit, which is none of the caller's: an error that matches that of a
// context says that the caller gave up.
func overdue(err error) error {
	if isOverdue(err) {
		return errNoAnswer
	}
	return err
}

// failures is why members could not serve a request: the latest reason of each, in the order in
// which they were asked.
type failures struct {
	members []*member
	reasons reasons
}

func (f *failures) add(m *member, err error) {
	if err = overdue(err); errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("%w from %s", err, m.host())
	}
	if i := slices.Index(f.members, m); i >= 0 {
		f.reasons[i] = err
		return
	}
	f.members, f.reasons = append(f.members, m), append(f.reasons, err)
}

func (f *failures) err() error {
	err := allOf(slices.Clone(f.reasons)...)
	if exchanged(err) {
		err = fmt.Errorf("%w; if the cluster was exchanged, open the locker again", err)
	}
	return err
}

// exchanged reports whether most members that were asked are of another cluster.
func exchanged(err error) bool {
	var all reasons
	if !errors.As(err, &all) {
		return errors.Is(err, errForeign)
	}
	foreign := 0
	for _, one := range all {
		if errors.Is(one, errForeign) {
			foreign++
		}
	}
	return foreign > len(all)/2
}

// reasons is several errors. Its text is one line, as that of errors.Join is not.
type reasons []error

// allOf leaves out what is nil. It is nil if nothing is left.
func allOf(errs ...error) error {
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

// hint adds what a connection on which nothing makes sense may mean.
func hint(err error) error {
	if errors.Is(err, errNoAnswer) || code(err) == codes.Unavailable {
		return fmt.Errorf("%w; a cluster that speaks TLS needs etcds://, one that doesn't etcd://", err)
	}
	return err
}
