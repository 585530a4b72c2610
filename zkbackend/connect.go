package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// sendBuffer is the longest message. go-zookeeper keeps a buffer of this size for each session.
const sendBuffer = 512 << 10

// silent keeps go-zookeeper from printing to the standard logger. What matters comes as an error.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connect opens a session, and returns it. ctx bounds that and nothing more.
func (d *zkDriver) connect(ctx context.Context, s *session) (*session, error) {
	if !d.enlist(s) {
		return nil, errOver
	}
	var err error
	s.conn, s.quiet, err = zk.Connect(d.servers, s.timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.hosts), zk.WithEventCallback(s.event),
		zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithMaxConnBufferSize(sendBuffer))
	if err != nil {
		d.delist(s)
		return nil, err
	}
	go s.run()
	if err = s.begin(ctx); err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// begin returns when the session stands and has authenticated itself. go-zookeeper does the latter again by itself
// after each connect, once it has succeeded.
func (s *session) begin(ctx context.Context) error {
	for _, a := range append([]auth{{}}, s.d.auth...) {
		for err := s.ready(ctx); ; err = s.ready(ctx) {
			if s.isOver() {
				return s.whyOver()
			}
			on := s.present()
			if err == nil && a.scheme != "" {
				err = s.conn.AddAuth(a.scheme, []byte(a.secret))
			}
			if err == nil && on == s.present() {
				break
			}
			if errors.Is(err, zk.ErrAuthFailed) {
				return errRefused
			}
			if err == nil { // the next connection may have been made before go-zookeeper had noted what to give on it
				continue
			}
			if !broken(err) || ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// dial is go-zookeeper's dialer. A session that is over gets no more connections; that includes the second session
// which go-zookeeper would ask for.
func (s *session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	s.sleep(s.hosts.Pause())
	ctx, cancel := context.WithTimeout(s.life, max(s.patience, 500*time.Millisecond))
	defer cancel()
	conn, err := s.d.dial(ctx, network, addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.isOver() {
		_ = conn.Close()
		err = errOver
	}
	if err != nil {
		s.trouble = zkconn.OverdueAt(addr, err)
		return nil, err
	}
	s.wire = zkconn.NewWire(conn, addr, s.patience, s.d.margins.hold(), s.hosts.Answered)
	return s.wire, nil
}

// sleep returns earlier when the session is over.
func (s *session) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.life.Done():
	}
}

// present is the present connection, or the last one.
func (s *session) present() *zkconn.Wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire
}

// hangUp closes it.
func (s *session) hangUp() {
	if w := s.present(); w != nil {
		_ = w.Close()
	}
}

// run keeps the session busy: see proof.go. It ends when the session is over.
func (s *session) run() {
	defer close(s.idle)
	context.AfterFunc(s.life, s.shut)
	if s.ready(s.life) != nil {
		return
	}
	ticker := time.NewTicker(s.d.margins.every())
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-ticker.C:
			s.beat()
		}
	}
}

// shut is called when the session is over. It asks the servers to end it, where they can be reached, and ends go-zookeeper's goroutines, and
// with that what is waiting for an answer.
func (s *session) shut() {
	s.stopListening()
	var leave sync.WaitGroup
	if errors.Is(s.whyOver(), errSilent) {
		s.hangUp()
		leave.Go(s.takeLeave)
	}
	s.conn.Close() // waits for an answer, for up to a second
	s.hangUp()     // its reader doesn't hear of Close, and it leaves the connection of an expired session open
	for range s.quiet {
	}
	<-s.idle
	leave.Wait()
	s.d.delist(s)
}

// close ends the session and returns when that is done, or ctx is over.
func (s *session) close(ctx context.Context) error {
	s.end(errOver)
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing a session: %w", context.Cause(ctx))
	}
}

var _ zk.Logger = silent{}
