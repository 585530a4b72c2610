package zkconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The servers don't say what sessions they allow, but show it; the sessions for that are ended.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(ensemble)
		under := &Ensemble{Servers: []string{"zk:2181"}, Dial: e.dial}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if s, l, err := under.Limits(ctx); err != nil || s != shortest || l != longest {
			t.Errorf("Limits = %v, %v, %v, want %v and %v", s, l, err, shortest, longest)
		}
		if len(e.ended) != 2 {
			t.Errorf("%d sessions were ended, want both", len(e.ended))
		}
	})
}

func TestLimitsWithoutAServer(t *testing.T) {
	refused := errors.New("connection refused")
	under := &Ensemble{Servers: []string{"zk:2181"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, refused
	}}
	if _, _, err := under.Limits(t.Context()); !errors.Is(err, ErrNoServer) || !errors.Is(err, refused) {
		t.Errorf("Limits = %v, want ErrNoServer and the dialler's error", err)
	}
}

// A server that refuses the credentials reads nothing of what follows them. The sessions for the limits
// are ended without credentials, unless the server demands them for that, too: then their timeouts are
// as short as can be.
func TestLimitsWhereCredentialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{refuses: true}
		under := &Ensemble{Servers: []string{"zk:2181"}, Dial: e.dial, Auth: []Credentials{{"digest", "joe:secret"}}}
		if s, l, err := under.Limits(t.Context()); err != nil || s != shortest || l != longest || len(e.ended) != 2 {
			t.Errorf("Limits = %v, %v, %v, and %d sessions were ended, want both", s, l, err, len(e.ended))
		}
		e.strict = true
		began := time.Now()
		_, _, err := under.Limits(t.Context())
		if !errors.Is(err, ErrNoServer) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "zk:2181: a server refuses") || time.Since(began) > 0 {
			t.Errorf("Limits = %v after %v, want ErrRefused at once", err, time.Since(began))
		}
		if last := e.granted[len(e.granted)-1]; len(e.granted) != 6 || last != shortest {
			t.Errorf("the servers have confirmed sessions %d times, the last one of %v, want 6 and %v", len(e.granted), last, shortest)
		}
		under.Servers = []string{"zk:2181", "down:2181"}
		under.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "down:2181" {
				return nil, errors.New("connection refused")
			}
			return e.dial(ctx, network, addr)
		}
		if _, _, err := under.Limits(t.Context()); !errors.Is(err, ErrRefused) {
			t.Errorf("Limits = %v, want ErrRefused, though another server is down", err)
		}
	})
}
