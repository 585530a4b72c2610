package redisconn

import (
	"sync"
	"time"
)

// LeastSilence is how long ago the first of the requests must have begun that had no answer since the last
// answer, before that says anything of the server or of other connections. One caller may have less time than
// a server that is well needs.
const LeastSilence = 20 * time.Millisecond

// Quiet notes for how long a server has answered nothing. The zero Quiet knows of no request.
type Quiet struct {
	mu    sync.Mutex
	since time.Time // when the first request began that had no answer since the last answer; zero: there is none
}

// Answered notes an answer.
func (q *Quiet) Answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Time{}
}

// IsSilence notes that a request that began then has had no answer, and reports whether the server has been
// quiet for LeastSilence.
func (q *Quiet) IsSilence(began time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since.IsZero() || began.Before(q.since) {
		q.since = began
	}
	return time.Since(q.since) >= LeastSilence
}
