//go:build unix

package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// disturbed makes sure that the faults which tests make are what they are said to be: a member that
// is cut off goes on answering its own clients, and no more; a new leader is found; what was
// acknowledged survives all of it but a wipe.
func (s *Service) disturbed(t *testing.T) {
	key := etcdPrefix + step.LockName(t)
	serves := func(m *etcdMember, opts ...clientv3.OpOption) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*etcdElection)
		defer cancel()
		got, err := m.admin.Get(ctx, key, opts...)
		if err == nil && len(got.Kvs) != 1 {
			err = errors.New("the key is gone")
		}
		return err
	}
	soon := func(m *etcdMember, opts ...clientv3.OpOption) error { // an election may follow another
		ctx, cancel := context.WithTimeout(t.Context(), itest.ShortWait)
		defer cancel()
		return itest.Until(ctx, func(context.Context) error { return serves(m, opts...) })
	}
	leader := func() (m *etcdMember) {
		itest.Must(t, func(ctx context.Context) (err error) { m, err = s.leader(ctx); return err })
		return m
	}
	do := func(f func(context.Context, *etcdMember) error, m *etcdMember) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error { return f(ctx, m) })
	}
	docker := func(verb string, m *etcdMember) {
		t.Helper()
		itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, verb, m) })
	}
	if _, err := s.Members[0].admin.Put(t.Context(), key, "1"); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct {
		name       string
		begin, end func(*etcdMember)
		answers    bool // its own clients, without asking the others
	}{
		{"cut", func(m *etcdMember) { do(s.cut, m) }, func(m *etcdMember) { do(s.join, m) }, true},
		{"paused", func(m *etcdMember) { docker("pause", m) }, func(m *etcdMember) { docker("unpause", m) }, false},
		{"paused and cut", func(m *etcdMember) { docker("pause", m); do(s.cut, m) }, func(m *etcdMember) { docker("unpause", m); do(s.join, m) }, false},
		{"killed", func(m *etcdMember) { docker("kill", m) }, func(m *etcdMember) { docker("start", m) }, false},
	} {
		former := leader()
		fault.begin(former)
		itest.Must(t, func(ctx context.Context) error { _, err := s.successor(ctx, former); return err })
		for _, m := range s.others(former) {
			if err := soon(m); err != nil {
				t.Errorf("%s: another member: %v", fault.name, err)
			}
		}
		if err := serves(former); err == nil {
			t.Errorf("%s: it serves reads of what is true now", fault.name)
		}
		once := serves
		if fault.answers {
			once = soon
		}
		if err := once(former, clientv3.WithSerializable()); (err == nil) != fault.answers {
			t.Errorf("%s: a read of what was true once: %v", fault.name, err)
		}
		fault.end(former)
		itest.Must(t, s.wait)
	}
	former := leader()
	itest.Must(t, func(ctx context.Context) error { return s.starve(ctx, former) })
	began := time.Now()
	_ = serves(former)
	t.Logf("starved: the leader answered after %v", time.Since(began))
	itest.Must(t, func(ctx context.Context) error { return errors.Join(s.feed(ctx, former), s.wait(ctx)) })
	s.restart(t)
	for _, m := range s.Members {
		if err := soon(m); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	}
	s.wipe(t)
	if err := serves(s.Members[0]); err == nil {
		t.Error("after a wipe the key is there")
	}
}
