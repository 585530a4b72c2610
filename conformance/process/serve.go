package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Verb names what a process does.
type Verb string

// What a process does with the lock of a [Command].
const (
	Acquire Verb = "acquire" // waits for the lock and keeps it, renewed
	Look    Verb = "look"    // looks at the lease: token and Err
	Release Verb = "release"
	Count   Verb = "count" // adds 1 to the number in File, Contenders × Rounds times
)

// Command tells a process what to do with the lock called Name.
type Command struct {
	Verb Verb
	Name string
	TTL  time.Duration // of leases; zero: the Locker's default

	// Of Acquire: the limit of permits of the name. One permit is acquired; zero: the lock.
	Permits int

	// Of Count.
	File       string // must exist and contain a number
	Contenders int    // goroutines
	Rounds     int    // of each contender
}

// Answer is the result of a command.
type Answer struct {
	Token locker.Token
	Slot  int    // of a permit; zero: it is none
	Error string // of the operation; empty: it succeeded
	Lost  bool   // the error matches locker.ErrLost
}

// Serve is the main function of a process that [Start] has started: it reads commands from in,
// executes them with l, and writes the answers to out, until in ends.
func Serve(l locker.Locker, in io.Reader, out io.Writer) error {
	s := server{locker: l, leases: make(map[string]locker.Lease)}
	commands, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c Command
		if err := commands.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := answers.Encode(s.execute(c)); err != nil {
			return err
		}
	}
}

type server struct {
	locker locker.Locker
	leases map[string]locker.Lease // by the lock's name
}

// acquireLimit and countLimit bound the acquisitions of a process that its suite can no longer end.
const (
	acquireLimit = 30 * time.Second
	countLimit   = time.Minute
)

func (s *server) execute(c Command) Answer {
	var token locker.Token
	err := fmt.Errorf("%s: no lease on %q", c.Verb, c.Name)
	lease := s.leases[c.Name]
	switch {
	case c.Verb == Acquire:
		ctx, cancel := context.WithTimeout(context.Background(), acquireLimit)
		defer cancel()
		if lease, err = c.acquire(ctx, s.locker); err == nil {
			s.leases[c.Name], token = lease, lease.Token()
		}
	case c.Verb == Count:
		err = s.count(c)
	case lease == nil:
	case c.Verb == Look:
		token, err = lease.Token(), lease.Err()
	case c.Verb == Release:
		token, err = lease.Token(), lease.Release(context.Background())
	}
	answer := Answer{Token: token}
	if lease != nil {
		answer.Slot = locker.Slot(lease)
	}
	if err != nil {
		answer.Error, answer.Lost = err.Error(), errors.Is(err, locker.ErrLost)
	}
	return answer
}

func (c Command) acquire(ctx context.Context, l locker.Locker) (locker.Lease, error) {
	if c.Permits > 0 {
		return locker.AcquirePermit(ctx, l, c.Name, c.Permits, c.options()...)
	}
	return l.Acquire(ctx, c.Name, c.options()...)
}

func (c Command) options() []locker.Option {
	if c.TTL == 0 {
		return nil
	}
	return []locker.Option{locker.WithTTL(c.TTL)}
}

func (s *server) count(c Command) error {
	results := make([]error, c.Contenders)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			for range c.Rounds {
				if results[i] = s.addOne(c); results[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(results...)
}

// addOne is a read-modify-write that nothing but the lock protects.
func (s *server) addOne(c Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), countLimit)
	defer cancel()
	return locker.Do(ctx, s.locker, c.Name, func(context.Context, locker.Lease) error {
		n, err := ReadNumber(c.File)
		if err != nil {
			return err
		}
		for range 3 { // where there is one processor, nobody might come in between
			runtime.Gosched()
		}
		return os.WriteFile(c.File, []byte(strconv.Itoa(n+1)), 0o600)
	})
}

// ReadNumber reads the number in the file of a [Count].
func ReadNumber(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
