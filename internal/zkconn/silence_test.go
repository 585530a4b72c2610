package zkconn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// A server that takes the connection and says nothing would hold up go-zookeeper for ten times its
// own limit; one that stops in the middle of the first answer forever.
func TestServerThatDoesNotGreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, zero := range []bool{false, true} {
			near, far := pipe(t, patience)
			write(t, near, []byte("connect"))
			if zero {
				write(t, far, greetingPacket(1000, 7)[:4])
				if _, err := reads(near); err != nil {
					t.Fatal(err)
				}
				limit(t, near, time.Time{})
			} else {
				limit(t, near, time.Now().Add(time.Hour))
			}
			late(t, near, "no greeting")
			if timeout, session := greeted(near); timeout != 0 || session != 0 {
				t.Errorf("greeted with %v, %v, want nothing", timeout, session)
			}
		}
	})
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pipe(t, patience)
		limit(t, near, time.Now().Add(time.Hour))
		write(t, near, []byte("connect"))
		write(t, far, greetingPacket(4000, 7))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		if timeout, session := greeted(near); timeout != 4*time.Second || session != 7 {
			t.Fatalf("greeted with %v, %v, want 4s and 7", timeout, session)
		}

		// Nothing was asked: go-zookeeper's own limit.
		limit(t, near, time.Now().Add(2*patience))
		if took, err := reads(near); !errors.Is(err, os.ErrDeadlineExceeded) || took != 2*patience {
			t.Fatalf("Read = %v after %v, want go-zookeeper's own limit: nothing was asked", err, took)
		}

		// The limit comes when something is asked, though a read is under way.
		limit(t, near, time.Now().Add(time.Hour))
		result := make(chan time.Duration)
		asked := time.Now()
		go func() {
			_, _ = reads(near)
			result <- time.Since(asked)
		}()
		synctest.Wait()
		write(t, near, []byte("ask"))
		if took := <-result; took != patience {
			t.Errorf("Read gave up after %v, want %v", took, patience)
		}

		// Two were asked, and one is answered: the other one isn't. An event is no answer.
		limit(t, near, time.Now().Add(time.Hour))
		write(t, near, []byte("ask"))
		write(t, far, reply(1))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		limit(t, near, time.Now().Add(time.Hour))
		write(t, far, reply(-1))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		limit(t, near, time.Now().Add(time.Hour))
		late(t, near, "the second request")

		// When that is answered as well, nothing is bounded again.
		write(t, far, reply(2))
		limit(t, near, time.Now().Add(time.Hour))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		limit(t, near, time.Now().Add(2*patience))
		if took, err := reads(near); !errors.Is(err, os.ErrDeadlineExceeded) || took != 2*patience {
			t.Errorf("Read = %v after %v, want go-zookeeper's own limit: all is answered", err, took)
		}
	})
}

// A server that doesn't read must not hold up a write for longer, either.
func TestServerThatDoesNotRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near := watched(t, c, far, patience)
	for began := time.Now(); ; {
		if err := near.SetWriteDeadline(time.Now().Add(time.Hour)); errors.Is(err, net.ErrClosed) {
			return // it was given up
		}
		write(t, near, make([]byte, 1<<20))
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute it is still written to")
		}
	}
}

// Each request that reaches the servers keeps the session alive, so a server that is silent gets no
// more of them: until it answers, or the connection is given up.
func TestSilentServerGetsNoMoreRequests(t *testing.T) {
	const hold = patience / 4
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, far := zktest.NewConnection()
			near := newWire(c, "zk:2181", patience, hold, func() {})
			defer near.Close()
			defer far.Close()
			arrived := make(chan byte, 10)
			go func() {
				defer close(arrived)
				for b := make([]byte, 1); ; {
					if _, err := io.ReadFull(far, b); err != nil {
						return
					}
					arrived <- b[0]
				}
			}()
			arrives := func(want string) {
				t.Helper()
				synctest.Wait()
				got := ""
				for len(arrived) > 0 {
					got += string(<-arrived)
				}
				if got != want {
					t.Errorf("answered %v: %q arrived, want %q", answered, got, want)
				}
			}
			write(t, near, []byte("c"))
			write(t, far, greetingPacket(4000, 7))
			go func() {
				for {
					_ = near.SetReadDeadline(time.Time{}) // as go-zookeeper does before each packet
					if _, err := near.Read(make([]byte, 100)); err != nil {
						return
					}
				}
			}()
			arrives("c")
			time.Sleep(time.Minute) // nothing is asked, so that is no silence
			write(t, near, []byte("1"))
			time.Sleep(hold)
			write(t, near, []byte("2"))
			arrives("12")
			time.Sleep(time.Nanosecond) // now it is longer than that
			written := make(chan struct{})
			go func() {
				defer close(written)
				_, _ = near.Write([]byte("3"))
			}()
			arrives("")
			if answered {
				write(t, far, reply(1))
				<-written
				arrives("3")
				return
			}
			<-written // when the connection is given up
			arrives("")
		})
	}
}

// go-zookeeper reads nothing more after a packet that it can't decode. The end of the session closes the
// connection, and that ends a request that is held back.
func TestCloseEndsWhatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pipe(t, patience)
		write(t, near, []byte("c"))
		write(t, far, greetingPacket(4000, 7))
		if _, err := reads(near); err != nil {
			t.Fatal(err)
		}
		write(t, near, []byte("1"))
		time.Sleep(2 * patience)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = near.Write([]byte("2"))
		}()
		synctest.Wait()
		select {
		case <-written:
			t.Fatal("the server is silent, and is sent more")
		default:
		}
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		<-written
	})
}
