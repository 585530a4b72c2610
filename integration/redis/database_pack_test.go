//go:build unix

package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

// databasePack tests a client whose connections are used for other databases as well.
func (s *Service) databasePack() []conformance.Case {
	return []conformance.Case{
		{ID: "I32", Name: "connection-that-selects-another-database", Run: s.selected,
			Why: "a program that shares the client may select another database, in which every " +
				"lock looks free; a second holder would get in, a release would find nothing, and " +
				"a Locker couldn't be opened while such a connection exists"},
	}
}

func (s *Service) selected(t conformance.T, _ *conformance.Harness) {
	client := redis.NewClient(&redis.Options{Addr: s.Nodes[0].Addr, Password: Password, PoolSize: 1, ContextTimeoutEnabled: true})
	elsewhere := func() { // on its only connection
		itest.Must(t, func(ctx context.Context) error { return client.Do(ctx, "select", 6).Err() })
	}
	elsewhere()
	made, err := redisbackend.New(t.Context(), client)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	shared, own, name := step.CloseAtEnd(t, locker.Locker(itest.WithClient{Locker: made, Client: client})), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	elsewhere()
	lease := step.Acquire(t, shared, name, locker.WithoutRenewal())
	elsewhere()
	step.WantLive(t, lease, own)
	step.WantLive(t, lease, shared)
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	if token, err := locker.CurrentToken(t.Context(), made, name, 0); err != nil || token != lease.Token() {
		t.Errorf("CurrentToken = %v, %v, want %v", token, err, lease.Token())
	}
	if state, err := locker.Inspect(t.Context(), made, name, locker.Look{}); err != nil || state.Holder == nil {
		t.Errorf("Inspect = %+v, %v, want the holder", state, err)
	}
	listed := 0
	for state, err := range locker.List(t.Context(), made, name, 0) {
		if err != nil || state.Name != name {
			t.Errorf("List shows %+v, %v, want the lock", state, err)
		}
		listed++
	}
	if listed != 1 {
		t.Errorf("List shows %d locks, want one", listed)
	}
	step.Release(t, lease)
	step.FreeWithin(t, 0, own, name)
	step.FreeWithin(t, 0, shared, name)
}
