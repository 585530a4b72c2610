package redisconn

import (
	"sync"
	"time"
)

// LeastSilence is for how long requests must have been without an answer before that says anything of the
// server or of other connections. One caller may have less time than a server that is well needs.
const LeastSilence = 20 * time.Millisecond

// Quiet is the time since the last answer in which requests had none. The zero Quiet has seen none.
type Quiet struct {
	mu    sync.Mutex
	since time.Time // when the first of these requests began; zero: there are none
}

// Answered ends it.
func (q *Quiet) Answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Time{}
}

// IsSilence reports whether it lasts for LeastSilence, now that a request that began then has had no answer.
func (q *Quiet) IsSilence(began time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.IsZero() || began.Before(q.since) {
		q.since = began
	}
	return time.Since(q.since) >= LeastSilence
}
