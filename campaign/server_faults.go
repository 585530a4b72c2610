package main

import (
	"context"
	"errors"
	"slices"
)

// What can be done to servers. Servers are named by their numbers, from 0.

// restart stops all servers in good order, and starts them with their data.
func (s *servers) restart(ctx context.Context) error {
	if err := s.each(ctx, s.all(), "stop", "--time", "20"); err != nil {
		return err
	}
	return s.each(ctx, s.all(), "start")
}

// crash kills all servers, and starts them with the data that they have written.
func (s *servers) crash(ctx context.Context) error {
	if err := s.each(ctx, s.all(), "kill"); err != nil {
		return err
	}
	return s.each(ctx, s.all(), "start")
}

// recreate kills all servers, and starts them without any data, at the same addresses. options are
// of the engine, in addition to the servers' own.
func (s *service) recreate(ctx context.Context, options ...string) error {
	if err := s.each(ctx, s.all(), "rm", "--force", "--volumes"); err != nil {
		return err
	}
	s.ids = nil
	for _, sp := range s.specs {
		id, err := runContainer(ctx, sp.image, slices.Concat(sp.options, options), sp.command...)
		if err != nil {
			return err
		}
		s.ids = append(s.ids, id)
	}
	return s.ready(ctx)
}

func (s *servers) kill(ctx context.Context, server int) error {
	return s.each(ctx, []int{server}, "kill")
}

func (s *servers) startAgain(ctx context.Context, server int) error {
	return s.each(ctx, []int{server}, "start")
}

// stopped stops some servers (SIGSTOP) while f is executed.
func (s *servers) stopped(ctx context.Context, some []int, f func(ctx context.Context) error) error {
	if err := s.each(ctx, some, "pause"); err != nil {
		return err
	}
	return errors.Join(f(ctx), s.each(ctx, some, "unpause"))
}

func (s *servers) all() (all []int) {
	for i := range s.ids {
		all = append(all, i)
	}
	return all
}

// each runs a command of the engine on some servers.
func (s *servers) each(ctx context.Context, some []int, command ...string) error {
	for _, i := range some {
		command = append(command, s.ids[i])
	}
	_, err := docker(ctx, command...)
	return err
}
