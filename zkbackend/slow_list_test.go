package zkbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// crowd makes a long queue for a lock, whose list arrives slowly from now on: renewals wait behind it, and
// no server has that much time for an answer. It returns how to speed lists up again.
func (s *server) crowd(name string) (speedUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 100 {
		_, _ = s.tree.create("/locker/"+name+"/"+driver.NewOwner()+"-", 2, 0)
	}
	s.trickle = ttl / 4
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trickle = 0
	}
}

// serveLast removes all nodes of a queue but the last one.
func (s *server) serveLast(name string) {
	nodes := s.children(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range nodes[:len(nodes)-1] {
		s.remove("/locker/" + name + "/" + node)
	}
}

// lists counts the lists since the last call.
func (s *server) lists() (n int) {
	for _, op := range s.asked() {
		if op == "children" {
			n++
		}
	}
	return n
}

// slowly opens a Locker that has used a lock, whose list is then slow.
func slowly(t *testing.T, s *server) (l locker.Locker, other locker.Lease, speedUp func()) {
	s.way = time.Millisecond
	l = open(t, s)
	release(t, acquire(t, l, "a"))
	other = acquire(t, l, "b")
	speedUp = s.crowd("a")
	s.asked()
	return l, other, speedUp
}

// A waiter's lists are cut off, so it doesn't know its place. It doesn't say that somebody has the lock,
// and other leases of its session live.
func TestWaiterWhileListIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 30 * time.Second
		s := newServer(t)
		l, other, _ := slowly(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		_, err := l.Acquire(ctx, "a")
		if !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, locker.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want that there is no answer", err)
		}
		if n, most := s.lists(), int(long/ttl*2); n < 5 || n > most { // a pause of half a TTL at least, in the end
			t.Errorf("the queue was listed %d times in %v, want %d times at most", n, long, most)
		}
		if err := other.Err(); err != nil {
			t.Errorf("another lease of the session is lost: %v", err)
		}
		release(t, other)
	})
}

// Once a list arrives, a waiter knows its place again.
func TestWaiterWhenListIsFastAgain(t *testing.T) {
	for _, ends := range []string{"it is held", "it is free"} {
		t.Run(ends, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				l, other, speedUp := slowly(t, s)
				ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
				defer cancel()
				time.AfterFunc(5*ttl, func() {
					if ends == "it is free" {
						s.serveLast("a")
					}
					speedUp()
				})
				lease, err := l.Acquire(ctx, "a")
				switch {
				case ends == "it is held":
					if !errors.Is(err, locker.ErrHeld) {
						t.Errorf("Acquire = %v, want that the lock is held", err)
					}
				case err != nil:
					t.Errorf("Acquire = %v, want a lease", err)
				default:
					release(t, lease)
				}
				release(t, other)
			})
		})
	}
}

// A list that doesn't arrive, because its server has stopped, is asked of the next one: soon, also with a long
// TTL.
func TestListOfTheNextServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = time.Minute
		s := newServer(t)
		s.way = time.Millisecond
		l := open(t, s, zkbackend.WithDefaultTTL(long))
		release(t, acquire(t, l, "a"))
		speedUp := s.crowd("a")
		s.mu.Lock()
		s.trickle = time.Hour
		s.mu.Unlock()
		time.AfterFunc(zkbackend.AnswerTimeout(long)+100*time.Millisecond, speedUp)
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
	})
}

// An acquisition looks for its own node in the list, and its removal does.
func TestRemovalWhileListIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 30 * time.Second
		s := newServer(t)
		l, other, speedUp := slowly(t, s)
		s.once("multi", loseReply)
		w := wait(t, l, "a")
		time.Sleep(long)
		if n, most := s.lists(), int(long/ttl*3); n < 5 || n > most { // each call of Release begins with a short pause
			t.Errorf("the queue was listed %d times in %v, want %d times at most", n, long, most)
		}
		if err := other.Err(); err != nil {
			t.Errorf("another lease of the session is lost: %v", err)
		}
		speedUp()
		w.cancel()
		s.nodesAre(t, "a", 100)
		release(t, other)
	})
}
