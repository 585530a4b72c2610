package zkconn

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What the servers answer to the request to end a session, and what it proves.
func TestConfirmGone(t *testing.T) {
	for what, c := range map[string]struct {
		server *ensemble
		seen   int64
		gone   bool
	}{
		"closed":                             {server: new(ensemble), gone: true, seen: 1},
		"closed, though nothing was seen":    {server: new(ensemble), gone: true},
		"expired":                            {server: &ensemble{expired: true}, seen: 1, gone: true},
		"expired, perhaps of an old leader":  {server: &ensemble{expired: true}},
		"a server that knows too little":     {server: &ensemble{expired: true, zxid: 6}, seen: 7},
		"a server that knows as much":        {server: &ensemble{expired: true, zxid: 7}, seen: 7, gone: true},
		"a server that wants credentials":    {server: &ensemble{strict: true}, seen: 1, gone: true},
		"a server that hangs up":             {server: &ensemble{rude: true}, seen: 1},
		"closed by a server that knows more": {server: &ensemble{zxid: 9}, seen: 7, gone: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := new(ensemble)
				e.be(true)
				s := openSession(t, e, new(recorder))
				s.End(ErrOver) // and no answer to go-zookeeper's own request to end it
				<-s.Closed()
				s.ensemble = &Ensemble{
					Servers: []string{"zk:2181"}, Dial: c.server.dial,
					Auth: []Credentials{{"digest", "joe:secret"}, {"ip", ""}},
				}
				err := s.ConfirmGone(t.Context(), c.seen)
				if (err == nil) != c.gone || s.IsGone() != c.gone || !c.gone && !errors.Is(err, errNotConfirmed) {
					t.Errorf("ConfirmGone = %v, and IsGone = %v, want %v", err, s.IsGone(), c.gone)
				}
				asked := len(c.server.granted)
				if err := s.ConfirmGone(t.Context(), 0); c.gone && (err != nil || len(c.server.granted) != asked) {
					t.Errorf("ConfirmGone again = %v, and the servers were asked again", err)
				}
			})
		})
	}
}

// One server's proof is enough. What another one says, or doesn't say, is no obstacle.
func TestConfirmGoneOnSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, new(ensemble), new(recorder))
		s.End(ErrOver)
		<-s.Closed()
		rude, good := &ensemble{rude: true}, new(ensemble)
		s.ensemble = &Ensemble{Servers: []string{"silent", "rude", "good"}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch addr {
			case "rude":
				return rude.dial(ctx, network, addr)
			case "good":
				time.Sleep(time.Second) // so that the others are first
				return good.dial(ctx, network, addr)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		began := time.Now()
		if err := s.ConfirmGone(t.Context(), 1); err != nil || time.Since(began) > time.Second {
			t.Errorf("ConfirmGone = %v after %v, want nil after 1s", err, time.Since(began))
		}
	})
}

// The newest transaction that was seen is known after a connection has ended, too.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{zxid: 7}
		s := openSession(t, e, new(recorder))
		defer func() { s.End(ErrOver); <-s.Closed() }()
		if n := s.Seen(); n != 0 {
			t.Errorf("Seen = %d before an answer, want 0", n)
		}
		if _, err := s.Exists("/"); err != nil {
			t.Fatal(err)
		}
		first := s.present()
		e.mu.Lock()
		e.silent = true
		e.mu.Unlock()
		_ = first.Close()
		for s.present() == first {
			time.Sleep(time.Millisecond)
		}
		if n := s.Seen(); n != 7 {
			t.Errorf("Seen = %d, want 7", n)
		}
	})
}
