package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

func TestRenewIsOneMessage(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	var locks []driver.Lock
	for range 1000 {
		locks = append(locks, newLock(t, d, time.Minute))
	}
	seen := make([]int, len(locks))
	before := driver.Stamp()
	d.Renew(t.Context(), locks, func(i int, base driver.Instant, err error) {
		seen[i]++
		if err != nil || base < before || base > driver.Stamp() {
			t.Errorf("lock %d: %v, %v, want a new base", i, base, err)
		}
	})
	if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
		t.Errorf("some of %d locks were not reported once", len(locks))
	}
	if got := len(f.called()); got != len(locks) {
		t.Errorf("%d requests, want %d", got, len(locks))
	}

	f.answers(gone)
	d.Renew(t.Context(), locks[:1], func(_ int, _ driver.Instant, err error) {
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("a lock of which nothing exists: %v, want ErrLost", err)
		}
	})
	f.answers("-LOADING Redis is loading the dataset in memory\r\n")
	d.Renew(t.Context(), locks[1:2], func(_ int, _ driver.Instant, err error) {
		if err == nil || errors.Is(err, locker.ErrLost) {
			t.Errorf("a server that is loading: %v, want an error that is not ErrLost", err)
		}
	})
}

// When one answer of a message stays out, those that came before it count.
func TestAnsweredBeforeTheRest(t *testing.T) {
	for what, rest := range map[string]string{"silence": "", "a broken connection": hangUp} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			for _, d := range []driver.Driver{f.driver(t, nil), f.ownDriver(t)} {
				const ttl = 3 * time.Second
				f.answers(granted, gone, rest)
				r := renewAll(t, d, ttl/4, newLock(t, d, ttl), newLock(t, d, ttl), newLock(t, d, ttl))
				r.until(t, "nil, ErrLost and an error that is not ErrLost", func(got []error) bool {
					return got[0] == nil && errors.Is(got[1], locker.ErrLost) && got[2] != nil && !errors.Is(got[2], locker.ErrLost)
				})
			}
		})
	}
}

// Renew returns when its context ends, and reports that nothing was heard. A late answer is reported
// as well, and meanwhile the next renewal finds its way on another connection.
func TestAnsweredAfterTheNextRenewal(t *testing.T) {
	f := newFake(t)
	for _, d := range []driver.Driver{f.driver(t, nil), f.ownDriver(t)} {
		const ttl = 3 * time.Second
		l := newLock(t, d, ttl)
		f.answers(granted)
		if err := renewAll(t, d, ttl, l).last()[0]; err != nil { // which connects
			t.Errorf("Renew reports %v", err)
		}
		held := make(chan struct{})
		var calls atomic.Int32
		f.does(func([]string) string {
			if calls.Add(1) == 1 {
				<-held
			}
			return granted
		})
		first := renewAll(t, d, ttl/10, l)
		if err := first.last()[0]; !errors.Is(err, locker.ErrNoAnswer) || !strings.Contains(err.Error(), f.addr) {
			t.Errorf("Renew reports %v, want ErrNoAnswer and the address %s", err, f.addr)
		}
		between := driver.Stamp()
		if err := renewAll(t, d, ttl/4, l).last()[0]; err != nil {
			t.Errorf("the next Renew reports %v", err)
		}
		close(held)
		first.until(t, "nil: the late answer", func(got []error) bool { return got[0] == nil })
		if base := first.base(); base > between {
			t.Errorf("the base of the late answer is %v after the call of Renew, want when it was sent", base.Sub(between))
		}
	}
}

// Where many leases need several messages, these don't wait for each other's answers. Beyond the first
// message, they use a third of the connections at most.
func TestManyRenewalsAtATime(t *testing.T) {
	for pool, want := range map[int]int{1: 1, 4: 2, 20: redisbackend.LanesWidth} {
		for _, ttl := range []time.Duration{7 * time.Second, time.Minute} { // with a short one late answers count
			t.Run(fmt.Sprint(pool, ttl), func(t *testing.T) {
				f := newFake(t)
				d := f.driver(t, func(o *redis.Options) { o.PoolSize = pool })
				locks := make([]driver.Lock, (redisbackend.LanesWidth+1)*redisbackend.BatchSize)
				for i := range locks {
					locks[i] = newLock(t, d, ttl)
				}
				for range 2 {
					peak := f.mostAtATime(t, want)
					for i, err := range renewAll(t, d, ttl/4, locks...).last() {
						if err != nil {
							t.Fatalf("lock %d: %v", i, err)
						}
					}
					if n := peak(); n != want {
						t.Errorf("%d messages at a time, want %d", n, want)
					}
				}
			})
		}
	}
}

// A round of many leases with a long TTL doesn't keep those with a short one from late answers.
func TestLateAnswersNextToALongRound(t *testing.T) {
	const ttl = 7 * time.Second
	f := newFake(t)
	d := f.driver(t, func(o *redis.Options) { o.PoolSize = 4 })
	held := make(chan struct{})
	var messages atomic.Int32 // at a time, of each the first request
	f.does(func([]string) string {
		messages.Add(1)
		<-held
		return granted
	})
	many := make([]driver.Lock, (redisbackend.LanesWidth+1)*redisbackend.BatchSize)
	for i := range many {
		many[i] = newLock(t, d, time.Minute)
	}
	var round sync.WaitGroup
	round.Go(func() { renewAll(t, d, time.Minute, many...) })
	for messages.Load() < 2 { // a third of the connections more than one
		time.Sleep(time.Millisecond)
	}
	short := renewAll(t, d, 50*time.Millisecond, newLock(t, d, ttl))
	if err := short.last()[0]; !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("Renew reports %v, want ErrNoAnswer", err)
	}
	close(held)
	short.until(t, "nil: the late answer", func(got []error) bool { return got[0] == nil })
	round.Wait()
}

// mostAtATime makes the fake answer nothing before it has that many messages, and had time for more. It
// returns how many it has had at a time.
func (f *fake) mostAtATime(t *testing.T, want int) (peak func() int) {
	var mu sync.Mutex
	var going, most int
	enough := make(chan struct{})
	f.does(func([]string) string {
		mu.Lock()
		if going++; going > most {
			if most = going; most == want {
				time.AfterFunc(20*time.Millisecond, func() { close(enough) })
			}
		}
		mu.Unlock()
		select {
		case <-enough:
		case <-t.Context().Done():
		}
		mu.Lock()
		defer mu.Unlock()
		going--
		return granted
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// In a Cluster the last tokens are renewed also if each answer comes after the end of its Renew.
func TestTokensAreKeptThoughAnswersAreLate(t *testing.T) {
	f := newFake(t)
	d := f.clusterDriver(t)
	l := newLock(t, d, 3*time.Second)
	f.answers(granted)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := make(chan struct{})
	f.does(func([]string) string {
		<-held
		return granted
	})
	r := renewAll(t, d, 100*time.Millisecond, l)
	if err := r.last()[0]; !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("Renew reports %v, want ErrNoAnswer", err)
	}
	close(held)
	r.until(t, "nil, and the token to be renewed", func(got []error) bool {
		return got[0] == nil && slices.Equal(f.called(), []string{"renew_one", "keep_one"})
	})
}

// reports is what one call of Renew has reported, also after it has returned.
type reports struct {
	mu     sync.Mutex
	errs   []error
	newest driver.Instant // the base of the last report without an error
}

func renewAll(t *testing.T, d driver.Driver, limit time.Duration, locks ...driver.Lock) *reports {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := &reports{errs: make([]error, len(locks))}
	d.Renew(ctx, locks, func(i int, base driver.Instant, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.errs[i] = err; err == nil {
			r.newest = base
		}
	})
	return r
}

func (r *reports) base() driver.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// last returns what was reported last about each lock.
func (r *reports) last() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

// until waits until what was reported last is as wanted.
func (r *reports) until(t *testing.T, want string, is func(errs []error) bool) {
	t.Helper()
	for began := time.Now(); !is(r.last()); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Errorf("Renew reports %v, want %s", r.last(), want)
			return
		}
	}
}
