package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What the servers answer to the request to end a session, and what it proves.
func TestConfirmGone(t *testing.T) {
	for _, farewell := range []bool{false, true} { // to the server that has confirmed the session last
		for what, c := range map[string]struct {
			server *ensemble
			seen   int64
			gone   bool
			says   error
		}{
			"closed":                             {server: new(ensemble), gone: true, seen: 1},
			"closed, though nothing was seen":    {server: new(ensemble), gone: true},
			"expired":                            {server: &ensemble{expired: true}, seen: 1, gone: true},
			"expired, perhaps of an old leader":  {server: &ensemble{expired: true}},
			"a server that knows too little":     {server: &ensemble{expired: true, zxid: 6}, seen: 7},
			"a server that knows as much":        {server: &ensemble{expired: true, zxid: 7}, seen: 7, gone: true},
			"a server that wants credentials":    {server: &ensemble{strict: true}, seen: 1, gone: true},
			"one that refuses them":              {server: &ensemble{refuses: true}, gone: true},
			"one that does both":                 {server: &ensemble{strict: true, refuses: true}, seen: 1, says: ErrRefused},
			"a server that hangs up":             {server: &ensemble{rude: true}, seen: 1},
			"closed by a server that knows more": {server: &ensemble{zxid: 9}, seen: 7, gone: true},
		} {
			t.Run(fmt.Sprintf("%s, farewell %v", what, farewell), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { confirmGone(t, c.server, farewell, c.seen, c.gone, c.says) })
			})
		}
	}
}

func confirmGone(t *testing.T, server *ensemble, farewell bool, seen int64, gone bool, says error) {
	s := endedSession(t, server)
	if farewell {
		if err := s.endOnServers(t.Context(), seen, "zk:2181"); s.IsGone() != gone || says != nil && !errors.Is(err, says) {
			t.Errorf("after the farewell: IsGone = %v, want %v; and %v", s.IsGone(), gone, err)
		}
		return
	}
	err := s.ConfirmGone(t.Context(), seen)
	if (err == nil) != gone || s.IsGone() != gone || !gone && !errors.Is(err, errNotConfirmed) || says != nil && !errors.Is(err, says) {
		t.Errorf("ConfirmGone = %v, and IsGone = %v, want %v", err, s.IsGone(), gone)
	}
	asked := len(server.granted)
	if err := s.ConfirmGone(t.Context(), 0); gone && (err != nil || len(server.granted) != asked) {
		t.Errorf("ConfirmGone again = %v, and the servers were asked again", err)
	}
}

// endedSession is over, and its servers are replaced by one at the same address.
func endedSession(t *testing.T, server *ensemble) *Session {
	t.Helper()
	e := new(ensemble)
	e.be(true)
	s := openSession(t, e, new(recorder))
	s.End(ErrOver) // and no answer to go-zookeeper's own request to end it
	<-s.Closed()
	s.ensemble = &Ensemble{
		Servers: []string{"zk:2181"}, Dial: server.dial,
		Auth: []Credentials{{"digest", "joe:secret"}, {"ip", ""}},
	}
	return s
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
