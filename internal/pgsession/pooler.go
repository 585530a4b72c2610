package pgsession

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Poolers are the addresses at which there is a pooler in session mode. The zero value is ready for
// use.
type Poolers struct {
	mu       sync.Mutex
	sessions map[*Session]string // that lead through a pooler, by its address
	trusted  map[string]bool     // the addresses that have passed the test
}

// Check finds out whether there is a pooler between here and the server that gives each transaction
// another connection: then the error matches ErrPooler. Check comes before any setting, because
// those would reach others there.
//
// There are two tests:
//
//  1. The server introduces a connection by the number of its process. A pooler introduces itself
//     with a number of its own, in all modes. If the number is the process', there is no
//     pooler.
//  2. Otherwise another connection must not come to the process of this session, in a transaction
//     right after this session was used. A pooler without sessions, as a rule, gives each client
//     the process that was free last, so the test finds it at once. An exception is that another
//     client has got the process in between: then the process has executed another statement than
//     this session's, which the server shows. A pooler that chooses in another way sooner or later
//     gives this session another process, or this session's process to the other connection. So the
//     second test has several rounds.
//
// The result counts until the last session through the pooler has ended: then it may have been
// restarted as another kind. Until then no connection needs a second one.
func (p *Poolers) Check(ctx context.Context, s *Session, dial func(context.Context) (*Conn, error)) error {
	if !s.throughPooler() {
		return nil
	}
	if p.knows(s) {
		return s.Err()
	}
	if until, limited := ctx.Deadline(); limited { // there must be time to say what is wrong
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)*3/4)
		defer cancel()
	}
	for try := 1; ; try++ {
		mixed, err := s.mixed(ctx, dial)
		switch {
		case mixed:
			return fmt.Errorf("%w; connect to the server itself, or to a pool in session mode", ErrPooler)
		case err == nil:
			p.trust(s)
			return nil
		case s.Err() != nil || !Ended(err) || try == MaxStillborn: // else the second one's session was just ending
			return fmt.Errorf("what kind of pooler there is can't be found out; it may have no second connection to the server: %w", err)
		}
	}
}

// throughPooler reports whether there is a pooler, of any kind, between here and the server.
func (s *Session) throughPooler() bool { return s.PID != s.keyPID }

// MaxStillborn is how often a connection is made whose session the server was just ending. A pooler
// may have several of those to give.
const MaxStillborn = 10

// knows notes that s leads through a pooler, and reports whether that has passed the test.
func (p *Poolers) knows(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Err() != nil {
		return true // Forget may have been called
	}
	if p.sessions == nil {
		p.sessions, p.trusted = make(map[*Session]string), make(map[string]bool)
	}
	addr := s.net.RemoteAddr().String()
	p.sessions[s] = addr
	return p.trusted[addr]
}

func (p *Poolers) trust(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr, open := p.sessions[s]; open {
		p.trusted[addr] = true
	}
}

// Forget is called when a session has ended.
func (p *Poolers) Forget(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr, through := p.sessions[s]
	if !through {
		return
	}
	delete(p.sessions, s)
	for _, other := range p.sessions {
		if other == addr {
			return
		}
	}
	delete(p.trusted, addr)
}

// poolerRounds is by far more than PgBouncer takes: ten that connect at the same time through one
// in transaction mode were let through in 21 of 400 tries by one round, and in none of 1,000 by
// two. A pooler that chooses at random may take more.
const poolerRounds = 6

// mixed compares s with a second connection, some times.
func (s *Session) mixed(ctx context.Context, dial func(context.Context) (*Conn, error)) (bool, error) {
	conn, err := dial(ctx)
	if err != nil {
		return false, fmt.Errorf("a second connection is needed for that: %w", err)
	}
	other := New(conn, s.Settings)
	other.Start(func(error) {})
	defer func() { other.Close(ctx) }()
	for range poolerRounds {
		if mixed, err := s.mixedWith(ctx, other); mixed || err != nil {
			return mixed, err
		}
	}
	return false, nil
}

// mixedWith is one round: s asks, and then the other session begins a transaction. The statement of
// s is like no other, so that it is recognised; the server shows it to clients that may see what
// this role does, unless track_activities is off.
func (s *Session) mixedWith(ctx context.Context, other *Session) (bool, error) {
	asks := fmt.Sprintf("SELECT pg_catalog.pg_backend_pid(), %d", rand.Uint64())
	mine, err := s.Exec(ctx, asks)
	if err != nil || mine.Int(0, 0) != s.PID {
		return err == nil, err
	}
	theirs, err := other.Exec(ctx, "BEGIN; SELECT pg_catalog.pg_backend_pid()")
	if err != nil {
		return strings.Contains(err.Error(), "statement pooling"), err // PgBouncer in statement mode refuses transactions
	}
	if theirs.Int(0, 0) == s.PID {
		return true, nil
	}
	last, err := other.Exec(ctx, fmt.Sprintf("SELECT state, query FROM pg_catalog.pg_stat_activity WHERE pid OPERATOR(pg_catalog.=) %d; COMMIT", s.PID))
	if err != nil {
		return false, err
	}
	shown := last.Value(0, 1)
	return shown != "" && shown != asks && last.Value(0, 0) != "disabled", nil
}
