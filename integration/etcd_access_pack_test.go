//go:build unix

package integration

import (
	"context"
	"errors"
	"net/url"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// accessPack is a cluster that refuses: users, passwords and permissions that change, logins that expire, no space.
func (s *etcdService) accessPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I30", Name: "changed-password-is-an-error", Run: s.passwordChanged,
			Why: "new logins are refused then, and the error must say so, without the password"},
		{ID: "I31", Name: "missing-permission-is-an-error", Run: s.permissionTaken,
			Why: "a role that was changed is not somebody else's lease, and all must go on when it is changed back"},
		{ID: "I32", Name: "full-cluster-is-an-error", Run: s.noSpace,
			Why: "a cluster without space takes no new locks; that is not somebody else's lease, and those that stand go on"},
		{ID: "I33", Name: "members-are-counted", Run: s.membersCounted,
			Why: "two members or one survive no loss, and whoever requires that must be told; how many addresses a URL has says nothing of it"},
	}
}

// idleLogin lets the login expire while a lease is held, another waited for, and nothing happens.
func (s *etcdService) idleLogin(t conformance.T, _ *conformance.Harness) {
	l, other, idle := keep(t, s.open(t)), keep(t, s.open(t)), keep(t, s.open(t))
	name := lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(far))
	waiter := wait(t, other, name, locker.WithTTL(far))
	free(t, 0, idle, lockName(t))
	pass(t, etcdTokenTTL+etcdTokenTTL/2)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	free(t, 0, idle, lockName(t))
	held(t, lease, idle)
	pass(t, etcdTokenTTL+etcdTokenTTL/2)
	waiter.pending(t)
	release(t, lease)
	next := waiter.granted(t, soon)
	pass(t, etcdTokenTTL+etcdTokenTTL/2)
	release(t, next)
	free(t, 0, l, name)
}

// admin has the first member carry out something.
func (s *etcdService) admin(t conformance.T, f func(context.Context, *clientv3.Client) error) {
	t.Helper()
	must(t, func(ctx context.Context) error { return f(ctx, s.members[0].admin) })
}

func (s *etcdService) setPassword(t conformance.T, password string) {
	t.Helper()
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.UserChangePassword(ctx, etcdUser, password)
		return err
	})
}

// passwordChanged ends the user's logins as well, which the cluster does by itself.
func (s *etcdService) passwordChanged(t conformance.T, _ *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(etcdTTL))
	t.Cleanup(func() { s.setPassword(t, etcdPassword) })
	s.setPassword(t, "another")
	err := refused(t, soon, l, lockName(t))
	if !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("TryAcquire = %v, want it to name the password as the reason", err)
	}
	if strings.Contains(err.Error(), etcdPassword) {
		t.Errorf("the error shows the password: %v", err)
	}
	refusedAtOpen(t, s.url, "authentication failed")
	lost(t, etcdTTL+soon, lease)
	s.setPassword(t, etcdPassword)
	free(t, etcdTTL+soon, l, name)
	free(t, soon, keep(t, s.open(t)), name)
}

func (s *etcdService) permit(t conformance.T, allowed bool) {
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

func (s *etcdService) permissionTaken(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(etcdTTL))
	waiter := wait(t, other, name, locker.WithTTL(etcdTTL))
	allowed := false
	t.Cleanup(func() {
		if !allowed {
			s.permit(t, true)
		}
	})
	s.permit(t, false)
	if err := refused(t, soon, l, lockName(t)); !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("TryAcquire = %v, want it to name the permission as the reason", err)
	}
	refusedAtOpen(t, s.url, "permission", etcdPrefix)
	lost(t, etcdTTL+soon, lease)
	s.permit(t, true)
	allowed = true
	if !waiter.returned(hang) {
		t.Fatalf("a waiter has not returned")
	}
	if waiter.err != nil {
		t.Logf("Acquire without a permission = %v", waiter.err)
	} else {
		release(t, waiter.lease)
	}
	free(t, etcdTTL+soon, other, name)
	free(t, soon, l, name)
}

// usersChange raises the revision of users and roles without end, and switches passwords off and on.
func (s *etcdService) usersChange(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(steady))
	waiter := wait(t, other, name, locker.WithTTL(steady))
	ctx, stop := context.WithCancel(t.Context())
	changed := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = s.members[0].admin.RoleAdd(context.WithoutCancel(ctx), "passing")
			if err == nil {
				_, err = s.members[0].admin.RoleDelete(context.WithoutCancel(ctx), "passing")
			}
		}
		changed <- err
	}()
	for range 50 {
		free(t, 0, l, lockName(t))
	}
	stop()
	if err := <-changed; err != nil {
		t.Fatalf("a change = %v", err)
	}
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.AuthDisable(ctx)
		return err
	})
	free(t, soon, l, lockName(t))
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.AuthEnable(ctx)
		return err
	})
	free(t, soon, l, lockName(t))
	pass(t, steady)
	held(t, lease, l)
	waiter.pending(t)
	release(t, lease)
	release(t, waiter.granted(t, soon))
}

// alarm raises or ends the alarm that a cluster raises when its quota is used up.
func (s *etcdService) alarm(t conformance.T, action pb.AlarmRequest_AlarmAction) {
	t.Helper()
	s.admin(t, func(ctx context.Context, c *clientv3.Client) error {
		status, err := c.Status(ctx, local(s.members[0].port))
		if err != nil {
			return err
		}
		request := &pb.AlarmRequest{Action: action, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE}
		_, err = clientv3.RetryMaintenanceClient(c, c.ActiveConnection()).Alarm(ctx, request)
		return err
	})
}

func (s *etcdService) membersCounted(t conformance.T, _ *conformance.Harness) {
	one := changed(s.url, func(u *url.URL) { u.Host, _, _ = strings.Cut(u.Host, ",") })
	for _, u := range []string{s.url, one} {
		if g := keep(t, openURL(t, u)).Guarantees(); g.Tolerance != locker.ToleranceMinority {
			t.Errorf("a cluster of three survives the loss of: %v", g.Tolerance)
		}
	}
}

func (s *etcdService) noSpace(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(etcdTTL))
	waiter := s.queued(t, other, name, etcdTTL)
	t.Cleanup(func() { s.alarm(t, pb.AlarmRequest_DEACTIVATE) })
	s.alarm(t, pb.AlarmRequest_ACTIVATE)
	if err := refused(t, soon, l, lockName(t)); !strings.Contains(err.Error(), "space exceeded") {
		t.Errorf("TryAcquire = %v, want it to name the space as the reason", err)
	}
	refusedAtOpen(t, s.url, "space exceeded")
	pass(t, 2*etcdTTL)
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: renewals need no space", err)
	}
	waiter.pending(t)
	release(t, lease)
	release(t, waiter.granted(t, soon)) // it has its place since before
	s.alarm(t, pb.AlarmRequest_DEACTIVATE)
	free(t, soon, l, name)
	if _, err := locker.TryAcquire(t.Context(), other, name); errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire of a lock that is free = %v", err)
	}
}
