package zkbackend_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// A Locker promises to outlive the loss of a minority only if it knows another server then.
func TestToleranceOfWhatIsNamed(t *testing.T) {
	for _, c := range []struct {
		servers string // addresses
		voting  int    // 0: the servers' list can't be read
		want    locker.Tolerance
		because string
	}{
		{"zk1 zk2 zk3", 3, locker.ToleranceMinority, ""},
		{"zk1 zk2", 3, locker.ToleranceMinority, ""},
		{"zk1", 3, locker.ToleranceNone, "1 of the addresses of the ensemble's 3 servers"},
		{"zk1 zk1:2181", 3, locker.ToleranceNone, "1 of the addresses"},
		{"zk1 zk2", 5, locker.ToleranceNone, "2 of the addresses of the ensemble's 5 servers"},
		{"zk1 zk2 zk3", 5, locker.ToleranceMinority, ""},
		{"zk1 zk2", 2, locker.ToleranceNone, "fewer than three"},
		{"zk1", 1, locker.ToleranceNone, "fewer than three"},
		{"zk1 zk2 zk3", 0, locker.ToleranceMinority, ""},
		{"zk1 zk2", 0, locker.ToleranceNone, "fewer than three servers are named"},
		{"zk1", 0, locker.ToleranceNone, "fewer than three servers are named"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			if c.voting > 0 {
				const config = "/zookeeper/config"
				s.tree.create("/zookeeper", 0, 0)
				s.tree.create(config, 0, 0)
				s.tree.data = map[string]string{config: strings.Repeat("server.1=zk1:2888:3888:participant;0.0.0.0:2181\n", c.voting)}
			}
			l, err := zkbackend.New(t.Context(), strings.Fields(c.servers), zkbackend.WithDialer(s.dial), zkbackend.WithTick(tick))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			g := l.Guarantees()
			if g.Tolerance != c.want || (g.Because == "") != (c.because == "") || !strings.Contains(g.Because, c.because) {
				t.Errorf("%q of %d servers: %v because %q, want %v because %q", c.servers, c.voting, g.Tolerance, g.Because, c.want, c.because)
			}
		})
	}
}

// Sessions that are longer than what was asked for keep a dead holder's lock for longer.
func TestSlackOfLongSessions(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ tick, shortest, more time.Duration }{
		{2 * s, 4 * s, 0},
		{2 * s, 15 * s, 11 * s}, // a TTL of 1 s needs 4 s
		{s / 2, s, 0},
		{s / 2, 15 * s, 15*s - 1750*time.Millisecond}, // a TTL of 250 ms needs 1.75 s
		{tick, 2 * tick, 0},
		{0, 15 * s, 0}, // the tick is found out: it is half of the shortest session at least
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t)
			server.shortest = c.shortest
			l, err := server.new(zkbackend.WithTick(c.tick))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			tick := c.tick
			if tick == 0 {
				tick = c.shortest / 2
			}
			g, usual := l.Guarantees(), zkbackend.GuaranteesAt(tick).Expiry.Slack
			if more := g.Expiry.Slack - usual; more != c.more || strings.Contains(g.Because, "minSessionTimeout") != (more > 0) {
				t.Errorf("a tick of %v, sessions of %v and longer: %v more than without, because %q, want %v", c.tick, c.shortest, more, g.Because, c.more)
			}
		})
	}
}
