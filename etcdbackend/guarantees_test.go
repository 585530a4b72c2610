package etcdbackend_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// members is the list of a cluster's members.
type members struct {
	pb.UnimplementedClusterServer
	of     *cluster
	voters int // 0: nobody may list them
}

func (m *members) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if m.voters == 0 {
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	list := []*pb.Member{{IsLearner: true}}
	for range m.voters {
		list = append(list, &pb.Member{})
	}
	return &pb.MemberListResponse{Header: m.of.header(), Members: list}, nil
}

// A Locker promises to outlive the loss of a minority only if it knows another member then.
func TestToleranceOfWhatIsNamed(t *testing.T) {
	for _, c := range []struct {
		named   string // addresses: a letter is a member's, a capital the same with a scheme
		voters  int    // 0: they may not be listed
		want    locker.Tolerance
		because string
	}{
		{"abc", 3, locker.ToleranceMinority, ""},
		{"ab", 3, locker.ToleranceMinority, ""},
		{"a", 3, locker.ToleranceNone, "1 of the addresses of the cluster's 3 voting members"},
		{"aaa", 3, locker.ToleranceNone, "1 of the addresses"},
		{"aA", 3, locker.ToleranceNone, "1 of the addresses"},
		{"a", 4, locker.ToleranceNone, "1 of the addresses of the cluster's 4"},
		{"ab", 4, locker.ToleranceMinority, ""},
		{"ab", 5, locker.ToleranceNone, "2 of the addresses of the cluster's 5"},
		{"abc", 5, locker.ToleranceMinority, ""},
		{"ab", 2, locker.ToleranceNone, "fewer than three voting"},
		{"a", 1, locker.ToleranceNone, "fewer than three voting"},
		{"abc", 0, locker.ToleranceMinority, ""},
		{"aab", 0, locker.ToleranceNone, "fewer than three members are named"},
	} {
		var s cluster
		s.list = &members{of: &s, voters: c.voters}
		addrs := make(map[string]string)
		var endpoints []string
		for _, letter := range strings.Split(c.named, "") {
			member := strings.ToLower(letter)
			if addrs[member] == "" {
				addrs[member] = s.member(t)
			}
			endpoint := addrs[member]
			if letter != member {
				endpoint = "http://" + endpoint
			}
			endpoints = append(endpoints, endpoint)
		}
		g, err := etcdbackend.Found(t.Context(), drive(t, clientv3.Config{Endpoints: endpoints}))
		if err != nil {
			t.Fatal(err)
		}
		if g.Tolerance != c.want || (g.Because == "") != (c.because == "") || !strings.Contains(g.Because, c.because) {
			t.Errorf("%q of %d voting members: %v because %q, want %v because %q", c.named, c.voters, g.Tolerance, g.Because, c.want, c.because)
		}
	}
}

// A long election timeout keeps a dead holder's lock for longer, and Because says so.
func TestSlackOfLongElections(t *testing.T) {
	for _, c := range []struct {
		least int64 // TTL that is granted, in seconds
		slack time.Duration
	}{
		{0, etcdbackend.Guarantees().Expiry.Slack},
		{2, etcdbackend.Guarantees().Expiry.Slack},
		{3, 14 * time.Second}, // elections of 2 s
		{15, 70 * time.Second},
	} {
		var s cluster
		s.list = &members{of: &s, voters: 1}
		s.ttlOf = func(asked int64) int64 { return max(asked, c.least) }
		g, err := etcdbackend.Found(t.Context(), s.start(t))
		if err != nil {
			t.Fatal(err)
		}
		raised := c.slack > etcdbackend.Guarantees().Expiry.Slack
		if g.Expiry.Slack != c.slack || strings.Contains(g.Because, "election timeout") != raised || !strings.Contains(g.Because, "fewer than three") {
			t.Errorf("no TTL below %d s: slack %v because %q, want %v and both reasons", c.least, g.Expiry.Slack, g.Because, c.slack)
		}
	}
}
