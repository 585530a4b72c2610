package kit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker/driver/kit"
)

// message is one message of lanes, which a test answers.
type message struct {
	ctx    context.Context
	reqs   []int
	answer chan func([]int) ([]string, error)
}

// messenger makes lanes whose messages come through the channel.
func messenger(o kit.LaneOptions) (*kit.Lanes[int, string], chan message) {
	sent := make(chan message, 100)
	g := kit.NewLanes(func(ctx context.Context, reqs []int) ([]string, error) {
		m := message{ctx, reqs, make(chan func([]int) ([]string, error))}
		sent <- m
		return (<-m.answer)(reqs)
	}, o)
	return g, sent
}

// echo is what a healthy service answers.
func echo(reqs []int) ([]string, error) {
	reps := make([]string, len(reqs))
	for i, r := range reqs {
		reps[i] = fmt.Sprint(r)
	}
	return reps, nil
}

func failing([]int) ([]string, error) { return nil, errService }

// reply is the outcome of a Do.
type reply struct {
	rep string
	err error
}

func do(ctx context.Context, g *kit.Lanes[int, string], req int) chan reply {
	c := make(chan reply, 1)
	go func() {
		rep, err := g.Do(ctx, req)
		c <- reply{rep, err}
	}()
	synctest.Wait()
	return c
}

func (m message) is(t *testing.T, want ...int) {
	t.Helper()
	if !slices.Equal(m.reqs, want) {
		t.Errorf("the message has %v, want %v", m.reqs, want)
	}
}
