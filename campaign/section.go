package main

import (
	"context"
	"errors"
	"time"
)

const (
	releaseLimit = 3 * time.Second
	retryPause   = 50 * time.Millisecond
)

// section acquires, executes body and releases.
func (c *contender) section(limit time.Duration, body func(*watch) error) error {
	asked := now()
	h, err := c.acquire(limit)
	if err != nil {
		return err
	}
	w := startWatch(h, section{Token: h.token, Asked: asked, Granted: now()})
	err = body(w)
	done := w.end()
	releaseErr := within(releaseLimit, h.release)
	if releaseErr != nil {
		done.Error = releaseErr.Error()
	}
	c.sections = append(c.sections, done)
	return err
}

// acquire tries again after an error until the limit, as a program does that must do its work.
func (c *contender) acquire(limit time.Duration) (*holding, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		h, err := c.lock(ctx)
		if err == nil || ctx.Err() != nil {
			return h, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// lock returns when ctx ends, also if the library doesn't. Then the contender is of no more use: it
// may be granted the lock later.
func (c *contender) lock(ctx context.Context) (h *holding, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err = c.client.lock(ctx, c.Name)
	}()
	select {
	case <-done:
		return h, err
	case <-ctx.Done():
	}
	select {
	case <-done:
		return h, err
	case <-time.After(time.Second):
		return nil, ctx.Err()
	}
}

// within calls f, and doesn't wait for longer than limit.
func within(limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	select {
	case err := <-result:
		return err
	case <-time.After(limit + time.Second):
		return errors.New("no answer")
	}
}
