package etcdbackend_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// Of two locks with one TTL, one is released twice. The other one goes on to use their session, which has
// one of the eight places: no other TTL gets that, and the etcd lease isn't revoked.
func TestASecondReleaseLeavesNoSession(t *testing.T) {
	const ttl, sessions = 10 * time.Second, 8
	var s cluster
	d := s.start(t)
	twice, _ := acquire(t, d, "a", ttl)
	once, _ := acquire(t, d, "b", ttl)
	release(t, twice)
	release(t, twice)
	for i := 1; i < sessions; i++ {
		acquire(t, d, fmt.Sprint(i), ttl+time.Duration(i)*time.Second)
	}
	if g, err := prepare(t, d, "c", time.Minute).Acquire(t.Context()); !errors.Is(err, locker.ErrTooManyTTLs) {
		t.Errorf("Acquire with one TTL too many = %+v, %v, want ErrTooManyTTLs", g, err)
	}
	if s.leaseOf(etcdbackend.KeyOf(once)) == 0 {
		t.Error("the key of the other lock is gone")
	}
}
