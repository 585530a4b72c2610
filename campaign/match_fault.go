package main

import (
	"context"
	"errors"
	"time"
)

// happen makes the fault happen, and returns when the section may go on.
func (m *match) happen(ctx context.Context) (err error) {
	if m.gather != nil {
		m.gather.arrive()
	}
	if m.injected == 0 {
		m.injected = now()
	}
	if m.fault.inject != nil {
		err = m.fault.inject(ctx, m)
	}
	m.begin()
	if m.gather != nil {
		err = errors.Join(err, m.gather.happen(ctx))
	}
	switch {
	case m.fault.silent && !m.fault.kills:
		time.Sleep(m.backend.ttl * 5 / 4) // in any case longer than the TTL
		m.awaitRival(ctx, m.limit())
	case m.fault.outlasts:
		time.Sleep(m.backend.ttl * 5 / 4)
	case m.fault.awaitsRival:
		m.awaitRival(ctx, m.backend.ttl/2)
	}
	if m.fault.undo != nil {
		err = errors.Join(err, m.fault.undo(ctx, m))
	}
	return err
}

// awaitRival returns when the rival holds the lock, or can't get it, or after a while.
func (m *match) awaitRival(ctx context.Context, limit time.Duration) {
	select {
	case <-m.guarding:
	case <-m.finished:
	case <-time.After(limit):
	case <-ctx.Done():
	}
}

// freeLater lets the rival release the lock after it has held it for a while.
func (m *match) freeLater(ctx context.Context) {
	wait(ctx, time.After(guardTime))
	m.free()
}

// meanwhile has something done in the background of the match.
func (m *match) meanwhile(ctx context.Context, f func(ctx context.Context)) {
	m.background.Go(func() { f(ctx) })
}

func (m *match) closeLink() {
	if m.link != nil {
		m.link.Close()
	}
}
