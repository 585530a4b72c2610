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

// Whoever gives up an opening gets the error of the context, and the cause of that.
func TestOpeningIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // which takes connections, and says nothing
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
		because := errors.New("because")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, because)
		_, err := locker.Open(ctx, rawURL)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, because) {
			t.Errorf("Open(%q) = %v, want DeadlineExceeded and the cause", rawURL, err)
		}
		cancel()
	}
}
