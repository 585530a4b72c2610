//go:build unix

package itest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/leader"
)

const roleCandidate = "candidate"

// StartCandidate starts a candidate for an office in a process of its own, whose Locker is opened by its URL.
// process.Acquire has it wait until it leads. process.Look has it ask whether it leads, again and again, until
// it has not run for longer than the TTL, and answers what it has said first after that.
func StartCandidate(t conformance.T, url string) process.Process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderURL+"="+url, holderRole+"="+roleCandidate)
	return process.Start(t, cmd)
}

// stand is the main function of a candidate's process.
func stand(l locker.Locker, in io.Reader, out io.Writer) error {
	commands, answers := json.NewDecoder(in), json.NewEncoder(out)
	var candidate *leader.Candidate
	var last time.Time // when it was known to run
	for {
		var c process.Command
		var answer process.Answer
		switch err := commands.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch c.Verb {
		case process.Acquire:
			var term leader.Term
			var err error
			if candidate, err = leader.Stand(l, c.Name, leader.WithTTL(c.TTL)); err == nil {
				term, err = candidate.Wait(context.Background())
			}
			if err != nil {
				answer.Error = err.Error()
			}
			answer.Token = term.Number
		case process.Look:
			answer = firstLook(candidate, last, c.TTL)
		default:
			answer.Error = "a candidate doesn't know this command"
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
		last = time.Now()
	}
}

// firstLook is the answer of a candidate that had not run for a TTL, when it runs again. The look must
// begin after that: a process that is stopped in the middle of a look has read the clock before.
func firstLook(c *leader.Candidate, last time.Time, ttl time.Duration) process.Answer {
	for {
		now := time.Now()
		term, leads := c.Leads()
		if now.Sub(last) > ttl {
			return process.Answer{Token: term.Number, Lost: !leads}
		}
		last = now
	}
}
