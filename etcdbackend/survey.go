package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
)

// stragglers is how long opening waits for the other members when one has answered.
const stragglers = time.Second

// survey finds out whether all members are of one cluster, and new enough. It asks until one member
// has answered, and then all others at once, of which those may be silent that are down.
func (d *etcdDriver) survey(ctx context.Context) error {
	var first *member
	var version string
	_, err := d.server.try(ctx, maxAttempt, func(ctx context.Context, m *member) (err error) {
		first = m
		version, err = d.server.version(ctx, m)
		return err
	})
	if code(err) == codes.PermissionDenied { // the probe decides then
		err = nil
	}
	if err == nil {
		err = checkVersion(version)
	}
	if err != nil {
		return err
	}
	others := make(chan error)
	n := 0
	for _, m := range d.server.all() {
		if m != first {
			n++
			go func() { others <- d.surveyOther(ctx, m, first) }()
		}
	}
	for range n {
		if other := <-others; other != nil {
			err = other
		}
	}
	return err
}

// surveyOther is nil for a member that doesn't answer.
func (d *etcdDriver) surveyOther(ctx context.Context, m, first *member) error {
	var version string
	err := new(call).attempt(ctx, stragglers, m, func(ctx context.Context, m *member) (err error) {
		version, err = d.server.version(ctx, m)
		return err
	})
	switch {
	case errors.Is(err, errForeign):
		return fmt.Errorf("%w: %s and %s", errMixed, first.host(), m.host())
	case errors.Is(err, errors.ErrUnsupported):
		return err
	case err != nil:
		return nil
	}
	return checkVersion(version)
}

// version asks a member for its version.
func (s *server) version(ctx context.Context, m *member) (string, error) {
	status, err := m.maintenance.Status(ctx, &pb.StatusRequest{}, options(ctx)...)
	if err != nil {
		return "", err
	}
	return status.Version, s.ours(m, status.Header)
}
