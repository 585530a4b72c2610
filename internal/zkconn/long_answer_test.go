package zkconn

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// A long answer may take longer to arrive than a server may be silent: a list of many nodes over a slow
// network. As long as bytes arrive the connection stays, and further requests are sent.
func TestLongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = patience / 4
		c, far := zktest.NewConnection()
		near := newWire(c, "zk:2181", patience, hold, func() {})
		defer near.Close()
		defer far.Close()
		write(t, near, []byte("connect"))
		write(t, far, greetingPacket(4000, 7))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		write(t, near, []byte("list"))
		limit(t, near, time.Now().Add(time.Hour)) // as go-zookeeper does it once for each packet
		answer := zktest.Packet(make([]byte, 200))
		arrived := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(near, make([]byte, len(answer)))
			arrived <- err
		}()
		for i := range answer {
			time.Sleep(hold * 3 / 4)
			write(t, far, answer[i:i+1])
			synctest.Wait()
			if near.isSilent() {
				t.Fatalf("%d bytes of an answer have arrived, and no further requests are sent", i+1)
			}
			if i == len(answer)/2 {
				time.Sleep(hold * 3 / 4)
				began := time.Now()
				if write(t, near, []byte("ask")); time.Since(began) > 0 {
					t.Error("a request waits for the end of another one's answer")
				}
			}
		}
		if err := <-arrived; err != nil {
			t.Fatalf("ReadFull = %v, want an answer that comes in small pieces", err)
		}

		// When no more bytes arrive in the middle of an answer, the server is silent.
		write(t, far, answer[:len(answer)/2])
		began := time.Now()
		_, err := io.ReadFull(near, make([]byte, len(answer)))
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != patience {
			t.Errorf("ReadFull = %v after %v, want that it gives up after %v", err, took, patience)
		}
	})
}
