//go:build unix

package etcd

import (
	"context"
	"errors"
	"net/url"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// accessPack tests a cluster that refuses requests: users, passwords and permissions that change,
// logins that expire, no space.
func (s *Service) accessPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I30", Name: "changed-password-is-an-error", Run: s.passwordChanged,
			Why: "after the password was changed the cluster refuses new logins; the error must " +
				"say so, and must not contain the password"},
		{ID: "I31", Name: "missing-permission-is-an-error", Run: s.permissionTaken,
			Why: "when a role was changed, the error must not say that the lock is held; " +
				"everything must continue when the role is changed back"},
		{ID: "I32", Name: "full-cluster-is-an-error", Run: s.noSpace,
			Why: "a cluster without space takes no new locks; the error must not say that the " +
				"lock is held, and existing leases must continue"},
		{ID: "I33", Name: "members-are-counted", Run: s.membersCounted,
			Why: "a Locker that knows one address of three is lost with that member, and a caller " +
				"that requires it to survive a minority must get an error, which says why"},
	}
}

// idleLogin lets the login expire while a lease is held, another waited for, and nothing happens.
func (s *Service) idleLogin(t conformance.T, _ *conformance.Harness) {
	l, other, idle := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	name := step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.FreeWithin(t, 0, idle, step.LockName(t))
	step.Pass(t, etcdTokenTTL+etcdTokenTTL/2)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.FreeWithin(t, 0, idle, step.LockName(t))
	step.WantLive(t, lease, idle)
	step.Pass(t, etcdTokenTTL+etcdTokenTTL/2)
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	step.Pass(t, etcdTokenTTL+etcdTokenTTL/2)
	step.Release(t, next)
	step.FreeWithin(t, 0, l, name)
}

// admin runs a command on the first member.
func (s *Service) admin(t conformance.T, f func(context.Context, *clientv3.Client) error) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error { return f(ctx, s.Members[0].admin) })
}

func (s *Service) setPassword(t conformance.T, password string) {
	t.Helper()
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.UserChangePassword(ctx, etcdUser, password)
		return err
	})
}

// passwordChanged ends the user's logins as well, which the cluster does by itself.
func (s *Service) passwordChanged(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(TTL))
	t.Cleanup(func() { s.setPassword(t, Password) })
	s.setPassword(t, "another")
	err := step.WantFailure(t, itest.ShortWait, l, step.LockName(t))
	if !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("TryAcquire = %v, want it to name the password as the reason", err)
	}
	if strings.Contains(err.Error(), Password) {
		t.Errorf("the error shows the password: %v", err)
	}
	itest.RefusedAtOpen(t, s.URL, "authentication failed")
	step.LostWithin(t, TTL+itest.ShortWait, lease)
	s.setPassword(t, Password)
	step.FreeWithin(t, TTL+itest.ShortWait, l, name)
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.Open(t)), name)
}

func (s *Service) permit(t conformance.T, allowed bool) {
	t.Helper()
	end := clientv3.GetPrefixRangeEnd(etcdPrefix)
	s.admin(t, func(ctx context.Context, c *clientv3.Client) (err error) {
		if allowed {
			_, err = c.RoleGrantPermission(ctx, etcdUser, etcdPrefix, end, clientv3.PermissionType(clientv3.PermReadWrite))
		} else {
			_, err = c.RoleRevokePermission(ctx, etcdUser, etcdPrefix, end)
		}
		return err
	})
}

func (s *Service) permissionTaken(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(TTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(TTL))
	allowed := false
	t.Cleanup(func() {
		if !allowed {
			s.permit(t, true)
		}
	})
	s.permit(t, false)
	if err := step.WantFailure(t, itest.ShortWait, l, step.LockName(t)); !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("TryAcquire = %v, want it to name the permission as the reason", err)
	}
	itest.RefusedAtOpen(t, s.URL, "permission", etcdPrefix)
	step.LostWithin(t, TTL+itest.ShortWait, lease)
	s.permit(t, true)
	allowed = true
	if !waiter.Returned(step.Limit) {
		t.Fatalf("a waiter has not returned")
	}
	if waiter.Err != nil {
		t.Logf("Acquire without a permission = %v", waiter.Err)
	} else {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, TTL+itest.ShortWait, other, name)
	step.FreeWithin(t, itest.ShortWait, l, name)
}

// usersChange raises the revision of users and roles without end, and switches passwords off and
// on.
func (s *Service) usersChange(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(steady))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(steady))
	ctx, stop := context.WithCancel(t.Context())
	changed := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = s.Members[0].admin.RoleAdd(context.WithoutCancel(ctx), "passing")
			if err == nil {
				_, err = s.Members[0].admin.RoleDelete(context.WithoutCancel(ctx), "passing")
			}
		}
		changed <- err
	}()
	for range 50 {
		step.FreeWithin(t, 0, l, step.LockName(t))
	}
	stop()
	if err := <-changed; err != nil {
		t.Fatalf("a change = %v", err)
	}
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.AuthDisable(ctx)
		return err
	})
	step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.AuthEnable(ctx)
		return err
	})
	step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
	step.Pass(t, steady)
	step.WantLive(t, lease, l)
	waiter.WantPending(t)
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}

// alarm raises or ends the alarm that a cluster raises when its quota is used up.
func (s *Service) alarm(t conformance.T, action pb.AlarmRequest_AlarmAction) {
	t.Helper()
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		status, err := c.Status(ctx, itest.LocalAddr(s.Members[0].Port))
		if err != nil {
			return err
		}
		request := &pb.AlarmRequest{Action: action, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE}
		_, err = clientv3.RetryMaintenanceClient(c, c.ActiveConnection()).Alarm(ctx, request)
		return err
	})
}

func (s *Service) membersCounted(t conformance.T, _ *conformance.Harness) {
	for named, want := range map[int]locker.Tolerance{1: locker.ToleranceNone, 2: locker.ToleranceMinority, 3: locker.ToleranceMinority} {
		u := itest.Changed(s.URL, func(u *url.URL) { u.Host = strings.Join(strings.Split(u.Host, ",")[:named], ",") })
		g := step.CloseAtEnd(t, itest.OpenURL(t, u)).Guarantees()
		if g.Tolerance != want || (g.Because != "") != (want == locker.ToleranceNone) {
			t.Errorf("%d addresses: fault tolerance %v because %q, want %v", named, g.Tolerance, g.Because, want)
		}
	}
}

func (s *Service) noSpace(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(TTL))
	waiter := s.queued(t, other, name, TTL)
	t.Cleanup(func() { s.alarm(t, pb.AlarmRequest_DEACTIVATE) })
	s.alarm(t, pb.AlarmRequest_ACTIVATE)
	if err := step.WantFailure(t, itest.ShortWait, l, step.LockName(t)); !strings.Contains(err.Error(), "space exceeded") {
		t.Errorf("TryAcquire = %v, want it to name the space as the reason", err)
	}
	itest.RefusedAtOpen(t, s.URL, "space exceeded")
	step.Pass(t, 2*TTL)
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: renewals need no space", err)
	}
	waiter.WantPending(t)
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait)) // it has its place since before
	s.alarm(t, pb.AlarmRequest_DEACTIVATE)
	step.FreeWithin(t, itest.ShortWait, l, name)
	if _, err := locker.TryAcquire(t.Context(), other, name); errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of a lock that is free = %v", err)
	}
}
