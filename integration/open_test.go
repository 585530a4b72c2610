//go:build unix

package integration

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// A caller that ends its context while a Locker is opened gets the error of the context, and its
// cause.
func TestOpenIsCanceled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addr := listener.Addr().String()
	for _, rawURL := range []string{
		"redis://" + addr,
		"redlock://" + addr + ",127.0.0.1:1,127.0.0.1:2",
		"etcd://" + addr,
		"zk://" + addr,
		"postgres://joe@" + addr + "/d",
	} {
		cause := errors.New("cause")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		_, err := locker.Open(ctx, rawURL)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
			t.Errorf("Open(%q) = %v, want DeadlineExceeded and the cause", rawURL, err)
		}
		cancel()
	}
}
