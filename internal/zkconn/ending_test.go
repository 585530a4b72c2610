package zkconn

import (
	"bytes"
	"context"
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

// Nothing that hasn't confirmed a session gets a password.
func TestAnotherServiceIsToldNoPassword(t *testing.T) {
	for _, says := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "", string(greetingPacket(0, 7)), string(greetingPacket(0, 0))} {
		for what, ask := range map[string]func(context.Context, *Session){
			"Limits":      func(ctx context.Context, s *Session) { _, _, _ = s.ensemble.Limits(ctx) },
			"ConfirmGone": func(ctx context.Context, s *Session) { _ = s.ConfirmGone(ctx, 1) },
		} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &other{says: says}
					s := endedSession(t, nil, false)
					s.ensemble.Dial = o.dial
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					ask(ctx, s)
					synctest.Wait()
					o.mu.Lock()
					defer o.mu.Unlock()
					if told := o.told.Bytes(); len(told) < greetingSize || bytes.Contains(told, []byte("secret")) || bytes.Contains(told, []byte("digest")) {
						t.Errorf("a service that says %q was told %q", says, told)
					}
				})
			})
		}
	}
}

// The servers that have confirmed a session are remembered, by Limits and by each session.
func TestServersThatHaveConfirmedASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, new(ensemble), new(recorder))
		s.End(ErrOver)
		<-s.Closed()
		under := &Ensemble{Servers: []string{"zk:2181"}, Dial: new(ensemble).dial}
		_, _, err := under.Limits(t.Context())
		if !s.ensemble.hasConfirmed("zk:2181") || !under.hasConfirmed("zk:2181") || under.hasConfirmed("other:2181") || err != nil {
			t.Errorf("after Open: %v, after Limits: %v, %v", s.ensemble.hasConfirmed("zk:2181"), under.hasConfirmed("zk:2181"), err)
		}
	})
}
