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
	"github.com/fencedlock/locker/conformance/step"
)

// Process is a holder in another process, or something that looks like one to the service.
type Process interface {
	// Do has the process carry out one command and returns its answer. The error says that there was none.
	Do(ctx context.Context, c Command) (Answer, error)
	// Kill ends the process at once, as SIGKILL does: it can't clean up.
	Kill()
	// Stop makes it stand still, as SIGSTOP does, and Continue go on.
	Stop()
	Continue()
}

// Verb is what a process can be told to do.
type Verb string

const (
	Acquire Verb = "acquire" // wait for the lock and keep it, renewed
	Look    Verb = "look"    // look at the lease: token and Err
	Release Verb = "release"
	Count   Verb = "count" // add one to the number in File, under the lock, Contenders × Rounds times
)

// Command is what a process is told to do with the lock called Name.
type Command struct {
	Verb       Verb
	Name       string
	TTL        time.Duration // of leases; zero: the default
	File       string
	Contenders int
	Rounds     int
}

// Answer is what came of a command.
type Answer struct {
	Token locker.Token
	Error string // of the operation; empty: it succeeded
	Lost  bool   // the error matches ErrLost
}

// Serve is the main function of a process that a [Start] has started: it carries out the commands that it reads
// from in with l, and writes the answers to out, until in ends.
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
		if err := answers.Encode(s.do(c)); err != nil {
			return err
		}
	}
}

type server struct {
	locker locker.Locker
	leases map[string]locker.Lease
}

func (s *server) do(c Command) Answer {
	var token locker.Token
	err := fmt.Errorf("%s: no lease on %q", c.Verb, c.Name)
	lease := s.leases[c.Name]
	switch {
	case c.Verb == Acquire:
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if lease, err = s.locker.Acquire(ctx, c.Name, c.options()...); err == nil {
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
	if err != nil {
		return Answer{Token: token, Error: err.Error(), Lost: errors.Is(err, locker.ErrLost)}
	}
	return Answer{Token: token}
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

// addOne is a read-modify-write with no other protection than the lock.
func (s *server) addOne(c Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return locker.Do(ctx, s.locker, c.Name, func(context.Context, locker.Lease) error {
		n, err := ReadNumber(c.File)
		if err != nil {
			return err
		}
		runtime.Gosched() // where there is one processor, nobody might come in between
		return os.WriteFile(c.File, []byte(strconv.Itoa(n+1)), 0o600)
	})
}

func ReadNumber(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// pipeProcess is a Process at the other end of two pipes.
type pipeProcess struct {
	commands *json.Encoder
	answers  *json.Decoder

	kill, stop, resume func()
}

// New makes a Process of something that runs [Serve]: commands go to in, answers come from out. The other three
// do what the methods of Process say.
func New(in io.Writer, out io.Reader, kill, stop, resume func()) Process {
	return &pipeProcess{json.NewEncoder(in), json.NewDecoder(out), kill, stop, resume}
}

func (p *pipeProcess) Do(ctx context.Context, c Command) (Answer, error) {
	type reply struct {
		answer Answer
		err    error
	}
	result := make(chan reply, 1)
	go func() {
		var r reply
		if r.err = p.commands.Encode(c); r.err == nil {
			r.err = p.answers.Decode(&r.answer)
		}
		result <- r
	}()
	select { // the goroutine ends with the process
	case r := <-result:
		return r.answer, r.err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func (p *pipeProcess) Kill()     { p.kill() }
func (p *pipeProcess) Stop()     { p.stop() }
func (p *pipeProcess) Continue() { p.resume() }

// Begin has a process carry out a command whose answer nobody waits for.
func Begin(t step.T, p Process, c Command) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.Do(ctx, c)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// MustDo has a process carry out a command that must succeed.
func MustDo(t step.T, p Process, c Command) Answer {
	t.Helper()
	answer := Do(t, p, c)
	if answer.Error != "" {
		t.Fatalf("the process failed to %s: %s", c.Verb, answer.Error)
	}
	return answer
}

// Do has a process carry out a command.
func Do(t step.T, p Process, c Command) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := p.Do(ctx, c)
	if err != nil {
		t.Fatalf("no answer from the process to %s: %v", c.Verb, err)
	}
	return answer
}
