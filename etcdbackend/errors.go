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

// rejected reports whether err is a no, whoever has said it: to ask the same one again makes no
// difference.
func rejected(err error) bool {
	if unknownToken(err) || errors.Is(err, errLearner) || errors.Is(err, rpctypes.ErrTooManyRequests) {
		return false // the next try has another token; others have a vote; the member gets over it
	}
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	case codes.ResourceExhausted: // without etcd's words it is the client's own limit for messages
		return inWordsOfEtcd(err)
	}
	return false
}

// refused reports whether err says no in the words of etcd, which means that nothing was executed. If
// it comes from a member of this cluster, all others say the same. That is for known to find out: a
// member of another cluster uses the same words, and other servers have codes that look like them.
func refused(err error) bool {
	return rejected(err) && inWordsOfEtcd(err) && !ofLogin(err) && !ofMember(err)
}

func inWordsOfEtcd(err error) bool {
	var known rpctypes.EtcdError
	return errors.As(err, &known)
}

// ofLogin reports whether err may be what became of a login. The client logs in at any address, one
// after the other, whichever member the request is for. Where it has logged in at a cluster without
// users, it has no token, and a member takes that for no user.
func ofLogin(err error) bool {
	return unknownToken(err) || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// ofMember reports whether err is about a limit that each member has for itself: others may have
// another one.
func ofMember(err error) bool {
	return errors.Is(err, rpctypes.ErrTooManyRequests) || errors.Is(err, rpctypes.ErrTooManyOps) ||
		errors.Is(err, rpctypes.ErrRequestTooLarge)
}

// undone reports whether err says that nothing was executed, though somebody else may be asked.
func undone(err error) bool {
	return refused(err) || ofLogin(err) || ofMember(err) || errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, errLearner)
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
