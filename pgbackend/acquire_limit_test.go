package pgbackend_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker"
)

// A call of Acquire that asks ends within 15 s, whatever it has to wait for one after the other: a
// connection, the end of a session that broke, another connection.
func TestAcquisitionEndsInTime(t *testing.T) {
	for name, c := range map[string]struct {
		deadHosts int
		stays     bool // the session of the connection that breaks
	}{
		"two of three hosts are dead":      {2, false},
		"the session doesn't end":          {0, true},
		"both, and one of the two is dead": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				config.ConnConfig.Port = 10
				dead := make(map[string]bool)
				for port := range uint16(c.deadHosts) {
					next := &pgconn.FallbackConfig{Host: "127.0.0.1", Port: 11 + port}
					config.ConnConfig.Fallbacks = append(config.ConnConfig.Fallbacks, next)
				}
				dial := config.ConnConfig.DialFunc
				config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dead[addr] {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return dial(ctx, network, addr)
				}
				l := openWith(t, config)
				for _, addr := range []string{"127.0.0.1:10", "127.0.0.1:11"}[:c.deadHosts] {
					dead[addr] = true
				}
				f.endAll("57P01")
				synctest.Wait()
				f.change(func(f *fake) {
					asked := askedFor("a")
					f.before = func(sql string) string {
						switch {
						case sql == asked:
							return "hang up"
						case c.stays && strings.Contains(sql, "pg_terminate_backend"):
							return "no"
						}
						return ""
					}
				})
				began := time.Now()
				_, err := locker.TryAcquire(t.Context(), l, "a")
				if took := time.Since(began); !errors.Is(err, locker.ErrNoAnswer) || took > 15*time.Second {
					t.Errorf("TryAcquire = %v after %v, want ErrNoAnswer within 15 s", err, took)
				}
				f.change(func(f *fake) { f.before = nil })
				time.Sleep(time.Minute)
				closeLocker(t, l)
			})
		})
	}
}
