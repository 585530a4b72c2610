package zkconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// other is another service. It says the same to everybody, and remembers what it was told.
type other struct {
	says string
	mu   sync.Mutex
	told bytes.Buffer
}

func (o *other) dial(context.Context, string, string) (net.Conn, error) {
	near, far := zktest.NewConnection()
	go func() {
		defer far.Close()
		data := make([]byte, 1000)
		n, _ := far.Read(data)
		o.note(data[:n])
		_, _ = io.WriteString(far, o.says)
		rest, _ := io.ReadAll(far)
		o.note(rest)
	}()
	return near, nil
}

func (o *other) note(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told.Write(data)
}

var password = []Credentials{{"digest", "joe:secret"}}

// Nothing gets a password that hasn't confirmed a session on the same connection, also at an address
// at which a server has confirmed the session before.
func TestAnotherServiceIsToldNoPassword(t *testing.T) {
	for _, says := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "", string(greetingPacket(0, 7)), string(greetingPacket(0, 0))} {
		for what, ask := range map[string]func(context.Context, *Session){
			"Limits":      func(ctx context.Context, s *Session) { _, _, _ = s.ensemble.Limits(ctx) },
			"ConfirmGone": func(ctx context.Context, s *Session) { _ = s.ConfirmGone(ctx, 1) },
		} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &other{says: says}
					s := endedSession(t, nil)
					s.ensemble.Dial = o.dial
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					ask(ctx, s)
					synctest.Wait()
					o.wantNoPassword(t)
				})
			})
		}
	}
}

func (o *other) wantNoPassword(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if told := o.told.Bytes(); len(told) < greetingSize || bytes.Contains(told, []byte("secret")) || bytes.Contains(told, []byte("digest")) {
		t.Errorf("a service that says %q was told %q", o.says, told)
	}
}

// A server whose answers are lost, and that demands credentials, ends a session that is silent: the
// address at which the session was confirmed last gets all requests at once. No other address gets the
// credentials.
func TestFarewellWhoseAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, o := new(ensemble), new(other)
		s := openSession(t, e, new(recorder))
		s.mu.Lock()
		s.ensemble = &Ensemble{
			Servers: []string{"zk:2181", "other:2181"}, Auth: password,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "other:2181" {
					return o.dial(ctx, network, addr)
				}
				return e.dial(ctx, network, addr)
			},
		}
		s.mu.Unlock()
		e.mu.Lock()
		e.unheard, e.strict = true, true
		e.mu.Unlock()
		overAfter(t, s)
		e.mu.Lock()
		defer e.mu.Unlock()
		if !errors.Is(s.Cause(), ErrSilent) || len(e.ended) != 1 {
			t.Errorf("the session was over because of %v, and %d sessions were ended, want ErrSilent and one", s.Cause(), len(e.ended))
		}
		o.wantNoPassword(t)
	})
}
