package etcdbackend_test

import (
	"net"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker/driver"
)

// A client whose dials wait for their members has one that can't be reached. The others are asked then, and that one again when
// they don't answer.
func TestDialsThatWait(t *testing.T) {
	for _, c := range []struct {
		why  string
		mute bool
	}{
		{"nobody listens", false},
		{"nobody speaks", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			away, up := listen(t), listen(t)
			if !c.mute {
				_ = away.Close()
			}
			var s cluster
			server := s.serve(t, up)
			d := drive(t, clientv3.Config{
				Endpoints:   []string{away.Addr().String(), up.Addr().String()},
				DialTimeout: 4 * time.Second,
				DialOptions: []grpc.DialOption{grpc.WithBlock()}, //nolint:staticcheck // users have it
			})
			for range 2 {
				if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n"); err != nil {
					t.Fatalf("CurrentToken while one member is away = %v", err)
				}
			}
			_ = away.Close()
			back, err := net.Listen("tcp", away.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			s.serve(t, back)
			server.Stop()
			if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n"); err != nil {
				t.Errorf("CurrentToken when it is back, and the other one away = %v", err)
			}
		})
	}
}
