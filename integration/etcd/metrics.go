//go:build unix

package etcd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// sentCounter counts the messages that the tests' own clients send.
type sentCounter struct{ n atomic.Int64 }

func (c *sentCounter) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	c.n.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *sentCounter) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return countedStream{s, c}, nil
}

type countedStream struct {
	grpc.ClientStream
	counter *sentCounter
}

func (s countedStream) SendMsg(m any) error {
	s.counter.n.Add(1)
	return s.ClientStream.SendMsg(m)
}

// metrics reads a member's own counters, by name and labels.
func (m *etcdMember) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+itest.LocalAddr(m.Port)+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return parseMetrics(answer.Body)
}

func parseMetrics(text io.Reader) (map[string]float64, error) {
	counters := make(map[string]float64)
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok {
			name, value, ok = strings.Cut(lines.Text(), " ")
		}
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			counters[name] = n
		}
	}
	return counters, lines.Err()
}

// sum adds up counters of all members whose names begin with prefix and contain all of labels.
func (s *Service) sum(t conformance.T, prefix string, labels ...string) (sum int64) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		for _, m := range s.Members {
			counters, err := m.metrics(ctx)
			if err != nil {
				return err
			}
			for name, n := range counters {
				if strings.HasPrefix(name, prefix) && containsAll(name, labels) {
					sum += int64(n)
				}
			}
		}
		return nil
	})
	return sum
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// requests counts the messages that Lockers send: requests, and messages on streams.
func (s *Service) requests(t conformance.T) int64 {
	own := s.sent.n.Load()
	return s.sum(t, "grpc_server_msg_received_total{") - own
}
