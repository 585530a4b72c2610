package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// contender is the process of one client of a library.
type contender struct {
	task
	workload workload
	client   *client
	say      *json.Encoder
	hear     *json.Decoder

	updates  int       // so far
	sections []section // of this order
}

const (
	// linger is for how long the victim's section goes on after its write, so that renewals that are
	// late are sent and answered.
	linger = 50 * time.Millisecond

	// idsOfContender keeps the updates of the contenders apart.
	idsOfContender = 1000
)

// contend is the main function of a contender's process.
func contend(text string, in io.Reader, out io.Writer) error {
	c := contender{say: json.NewEncoder(out), hear: json.NewDecoder(in)}
	if err := json.Unmarshal([]byte(text), &c.task); err != nil {
		return err
	}
	b, err := findBackend(c.Backend)
	if err != nil {
		return err
	}
	l, err := b.library(c.Library)
	if err != nil {
		return err
	}
	if c.workload, err = findWorkload(c.Workload); err != nil {
		return err
	}
	dial, err := c.dialer()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	c.client, err = l.open(ctx, site{addrs: c.Addrs, dial: dial, ttl: c.TTL})
	cancel()
	if err != nil {
		return errors.Join(err, c.say.Encode(request{Say: sayReady, Error: err.Error()}))
	}
	if err := c.say.Encode(request{Say: sayReady, Slack: c.client.slack}); err != nil {
		return err
	}
	return c.serve()
}

// serve executes orders until it gets the order to quit, or the program ends.
func (c *contender) serve() error {
	for {
		var o order
		if err := c.hear.Decode(&o); err != nil {
			return err
		}
		if o.Do == doQuit {
			c.client.close()
			return nil
		}
		c.sections = nil
		err := c.execute(o)
		done := request{Say: sayDone, Sections: c.sections}
		if err != nil {
			done.Error = err.Error()
		}
		if err := c.say.Encode(done); err != nil {
			return err
		}
	}
}

func (c *contender) execute(o order) error {
	switch o.Do {
	case doUpdate:
		for _, think := range o.Thinks {
			if err := c.section(o.Limit, func(w *watch) error { return c.update(w, think) }); err != nil {
				return err
			}
		}
		return nil
	case doHold:
		return c.section(o.Limit, func(w *watch) error { return c.hold(w, o) })
	case doGuard:
		return c.section(o.Limit, func(*watch) error {
			_, err := c.ask(request{Say: sayHere})
			return err
		})
	}
	return fmt.Errorf("order %q is unknown", o.Do)
}

// update reads, thinks and writes. A holder that knows that it has lost the lock doesn't write.
func (c *contender) update(w *watch, think time.Duration) error {
	u, read, err := c.read(w)
	if err != nil || read.Refused {
		return err
	}
	time.Sleep(think)
	if !w.look() {
		return nil
	}
	return c.write(w, u, read)
}

// hold is an update with a fault in it. If it is unchecked, the victim writes without another look, as a
// process does that is stopped after its last look.
func (c *contender) hold(w *watch, o order) error {
	u, read, err := c.read(w)
	if err != nil || read.Refused {
		return err
	}
	time.Sleep(o.Thinks[0])
	held := w.look()
	if _, err := c.ask(request{Say: sayHere}); err != nil {
		return err
	}
	if o.Unchecked || w.look() {
		if held {
			err = c.write(w, u, read)
		}
	}
	if err != nil {
		return err
	}
	time.Sleep(linger)
	w.look()
	_, err = c.ask(request{Say: sayOver})
	return err
}

// read begins the next update.
func (c *contender) read(w *watch) (u update, read reply, err error) {
	c.updates++
	u = update{id: c.Number*idsOfContender + c.updates, seed: c.Seed}
	read, err = c.ask(request{Say: sayRead, Token: c.claim(w), Update: u.id, Cells: c.cells(u)})
	return u, read, err
}

func (c *contender) write(w *watch, u update, read reply) error {
	_, err := c.ask(request{Say: sayWrite, Token: c.claim(w), Update: u.id, Cells: c.cells(u), Values: c.workload.change(read.Values, u)})
	return err
}

func (c *contender) cells(u update) []int {
	if c.workload.cells == nil {
		return nil
	}
	return c.workload.cells(u)
}

// claim is the token that the store checks; 0: there is no fence.
func (c *contender) claim(w *watch) int64 {
	if !c.Fence {
		return 0
	}
	return w.token
}

func (c *contender) ask(r request) (answer reply, err error) {
	if err := c.say.Encode(r); err != nil {
		return reply{}, err
	}
	if err = c.hear.Decode(&answer); err == nil {
		err = jump(answer.Ahead)
	}
	return answer, err
}
