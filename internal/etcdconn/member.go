package etcdconn

import (
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// member is one server of the cluster.
type member struct {
	addr     string // as the client has it
	of       *Cluster
	dialling flight

	// Set when connected has returned nil.
	conn        *grpc.ClientConn
	kv          clientv3.KV
	leases      pb.LeaseClient
	watch       pb.WatchClient
	maintenance pb.MaintenanceClient
	cluster     pb.ClusterClient

	mu        sync.Mutex
	free      []*keepaliveStream // open, and not in use
	redialled time.Time          // when redial last had an effect
	silence   time.Duration      // of attempts that no answer has come to, since the last answer
	silentTo  time.Time          // what was before that is in silence, or was answered
	closed    bool
	refused   error // why the member is asked for nothing any more
}

// host returns the address as it is in errors.
func (m *member) host() string { return HostOf(m.addr) }

// HostOf returns an endpoint without its scheme.
func HostOf(endpoint string) string {
	if _, host, found := strings.Cut(endpoint, "://"); found {
		return host
	}
	return endpoint
}

// refuse makes all further requests to the member fail, with the reason that it returns.
func (m *member) refuse(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = fmt.Errorf("%w: %s; if a member is there now, open the locker again", why, m.host())
	return m.refused
}

func (m *member) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, s := range m.free {
		s.cancel()
	}
	m.free = nil
	if m.conn != nil {
		_ = m.conn.Close()
	}
}

// noteSilence takes in an attempt that ends now, and whether it got no answer. Attempts at the same time
// count once.
func (m *member) noteSilence(began time.Time, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !silent {
		m.silence, m.silentTo = 0, now
		return
	}
	more := now.Sub(began)
	if began.Before(m.silentTo) {
		more = now.Sub(m.silentTo)
	}
	m.silence, m.silentTo = max(m.silence+more, now.Sub(began)), now
}

// isSilent reports whether the member has been asked for half of limit without an answer. Several
// attempts count together: callers may have less time than that, all of them.
func (m *member) isSilent(limit time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silence >= limit/2
}

// forgetSilence is called when the member has been left: it may be well when it is asked again.
func (m *member) forgetSilence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silence = 0
}

// isRedialled reports whether redial has had an effect not longer ago than that.
func (m *member) isRedialled(ago time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.redialled) <= ago
}

// redial makes a connection that has failed dial again now. gRPC's back-off may end two minutes
// after the member has come back.
func (m *member) redial() {
	if m.conn.GetState() != connectivity.TransientFailure {
		return
	}
	m.mu.Lock()
	due := time.Since(m.redialled) > time.Second
	if due {
		m.redialled = time.Now()
	}
	m.mu.Unlock()
	if due {
		m.conn.ResetConnectBackoff()
	}
}
