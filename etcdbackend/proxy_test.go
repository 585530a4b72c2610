package etcdbackend_test

import (
	"testing"
	"time"

	"github.com/fencedlock/locker/etcdbackend"
)

// An answer with less than the TTL is none to a keepalive: it may be what is left of the etcd
// lease, which a proxy has asked for.
func TestKeepaliveThatExtendsNothing(t *testing.T) {
	s := cluster{left: func(granted int64) int64 { return granted - 1 }}
	d := s.start(t)
	l, _ := acquire(t, d, "n", 10*time.Second)
	before := s.leaseOf(etcdbackend.KeyOf(l))
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew = %v", errs[0])
	}
	if s.leaseOf(etcdbackend.KeyOf(l)) == before {
		t.Error("the key is still on the etcd lease that nothing has extended")
	}
}
