package zkconn

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// Config is what a session needs to know besides its servers.
type Config struct {
	Timeout       time.Duration // asked of the servers
	AnswerTimeout time.Duration // how long a server may leave a request without an answer
	HoldAfter     time.Duration // how long a server without an answer is sent further requests
	Interval      time.Duration // between two calls of Heartbeat
	Events        Events
}

// Events is notified of what becomes of a session. No method may wait for the session.
//
// Connected, Lost, NodeDeleted and NodeChanged are called one at a time, in order, by go-zookeeper.
type Events interface {
	// Connected is called when a server has confirmed the session, the first time or again, and
	// before requests are sent on that connection. No watch of an earlier connection exists any
	// more.
	Connected(Confirmation)

	// Lost is called before the session is over because the servers have ended it, or because one
	// of them refuses its credentials.
	Lost(cause error)

	// NodeDeleted and NodeChanged are called when a watch fires, which ends it.
	NodeDeleted(path string)
	NodeChanged(path string)

	// HasNodes reports whether there are ephemeral nodes of the session. Then only answers to
	// writes keep it alive: see silence.go.
	HasNodes() bool

	// Heartbeat is called once an interval, from the first confirmation to the session's end, in a
	// goroutine of the session's own. It may wait.
	Heartbeat()

	// Woken is called after a call of Wake, in the goroutine of Heartbeat. It may wait.
	Woken()
}

// Confirmation is a server's answer to a request to connect.
type Confirmation struct {
	Sent, Answered driver.Instant
	Granted        time.Duration // the session's timeout
}

// Session is one session with the servers. It never becomes another one: after its end it doesn't
// connect again.
type Session struct {
	ensemble *Ensemble
	config   Config
	hosts    *hosts
	client   *zk.Conn
	quit     <-chan zk.Event // closed when the client's goroutines have ended
	wake     kit.Signal
	idle     chan struct{} // closed when Heartbeat and Woken aren't called any more
	closed   chan struct{}

	life context.Context         // until the session is over, with the cause
	end  context.CancelCauseFunc // also called again, and with mu held

	mu          sync.Mutex
	server      string        // address of the server that has confirmed the session last
	wire        *wire         // the present connection, or the last one
	up          chan struct{} // closed while requests can be sent
	isUp        bool
	lastConnErr error          // why there was no connection, the last time
	heard       driver.Instant // when the newest request was sent that was answered: not requests to connect
	written     driver.Instant // when the newest write was sent that was answered
	unsure      driver.Instant // when the oldest write was sent whose answer is lost, while no later one is answered; else Never
	silence     *time.Timer    // calls checkSilence; nil until the session was confirmed
	id          int64          // id and password attach a connection to the session
	password    [passwordSize]byte
	gone        bool // no request of the session can be executed any more: see gone.go
}

// sendBuffer is the longest message. go-zookeeper keeps a buffer of this size for each session.
const sendBuffer = 512 << 10

// noLog keeps go-zookeeper from printing to the standard logger. What matters comes as an error.
type noLog struct{}

func (noLog) Printf(string, ...any) {}

var _ zk.Logger = noLog{}

// New prepares a session, which Open opens. A session that is never opened needs no end.
func (e *Ensemble) New(config Config) *Session {
	s := &Session{
		ensemble: e,
		config:   config,
		wake:     kit.NewSignal(),
		idle:     make(chan struct{}),
		closed:   make(chan struct{}),
		up:       make(chan struct{}),
		unsure:   driver.Never,
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.hosts = &hosts{isOver: s.IsOver}
	return s
}

// Open returns when the session exists and has authenticated itself. ctx covers the opening alone.
// After an error the session is over.
func (s *Session) Open(ctx context.Context) (err error) {
	s.client, s.quit, err = zk.Connect(s.ensemble.Servers, s.config.Timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.hosts), zk.WithEventCallback(s.event),
		zk.WithLogger(noLog{}), zk.WithLogInfo(false), zk.WithMaxConnBufferSize(sendBuffer))
	if err != nil {
		s.End(err)
		close(s.closed)
		return err
	}
	context.AfterFunc(s.life, s.closeAll) //nolint:contextcheck // its requests come when that context is over
	go s.beat()
	if err = s.authenticate(ctx); err != nil {
		s.End(err)
	}
	return err
}

// authenticate gives the credentials. go-zookeeper gives them again after each connect, once it has
// succeeded with them.
func (s *Session) authenticate(ctx context.Context) error {
	for _, c := range append([]Credentials{{}}, s.ensemble.Auth...) {
		for err := s.Ready(ctx); ; err = s.Ready(ctx) {
			if s.IsOver() {
				return s.Cause()
			}
			on := s.present()
			if err == nil && c.Scheme != "" {
				err = s.client.AddAuth(c.Scheme, []byte(c.Secret))
			}
			if err == nil && on == s.present() {
				break
			}
			if errors.Is(err, zk.ErrAuthFailed) {
				return ErrRefused
			}
			if err == nil { // the next connection may have been made before go-zookeeper noted the credentials
				continue
			}
			if !Broken(err) || ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// Wake makes Woken be called, without waiting for it. It may be called from any goroutine.
func (s *Session) Wake() { s.wake.Set() }

// beat calls Heartbeat and Woken until the session is over.
func (s *Session) beat() {
	defer close(s.idle)
	if s.Ready(s.life) != nil {
		return
	}
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-ticker.C:
			s.config.Events.Heartbeat()
		case <-s.wake:
			s.config.Events.Woken()
		}
	}
}

// ID is the session's number on the servers.
func (s *Session) ID() int64 { return s.client.SessionID() }

// Done is closed when the session is over: its requests fail, and it doesn't connect any more.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// IsOver reports whether Done is closed.
func (s *Session) IsOver() bool { return s.life.Err() != nil }

// Cause is nil until the session is over, and then says why.
func (s *Session) Cause() error { return context.Cause(s.life) }

// End ends the session. It doesn't wait, and a second call does nothing.
func (s *Session) End(cause error) { s.end(cause) }

// Closed is closed when the session is over and its connection and goroutines have ended.
func (s *Session) Closed() <-chan struct{} { return s.closed }

// closeAll is called when the session is over. It asks the servers to end the session, where they
// can be reached, and ends go-zookeeper's goroutines, and with them all requests that wait for an
// answer.
func (s *Session) closeAll() {
	s.stopSilence()
	var leaving sync.WaitGroup
	if errors.Is(s.Cause(), ErrSilent) {
		s.closeConn()
		leaving.Go(func() { _ = s.endOnServers(context.Background(), 0, s.confirmedAt()) })
	}
	s.client.Close() // waits for an answer, for up to a second
	s.closeConn()    // Close doesn't reach the client's reader, and leaves the connection of an expired session open
	for range s.quit {
	}
	<-s.idle
	leaving.Wait()
	close(s.closed)
}
