package main

import (
	"context"
	"errors"
	"time"
)

// leaderFaults are faults of a cluster's leader, or of a server that has replicas. Another server takes
// over.
//
// In some the holder falls silent at first, and the leader fails just before the lease would end.
// The next leader gives the lease its whole time again, so a rival comes in later, and never sooner.
var leaderFaults = []fault{
	{name: "leader-kill", what: "the leader is killed (SIGKILL), and started again when another one leads",
		leader: true, outlasts: true, hazard: failover, killsLeader: true, serviceFault: killLeader},
	{name: "leader-stop", what: "the leader is stopped (SIGSTOP) for longer than the TTL, and continues when another one leads",
		leader: true, outlasts: true, hazard: failover, serviceFault: stopLeader},
	{name: "leader-cut", what: "all packets between the leader and the other servers are dropped for longer than the TTL; clients still reach all",
		leader: true, isolates: true, outlasts: true, hazard: failover, needs: isolationUsable, serviceFault: isolateLeader},
	afterSilence(fault{name: "expiry-leader-kill", what: "the holder is stopped (SIGSTOP), and just before its lease ends the leader is killed",
		killsLeader: true, serviceFault: killLeader}),
	afterSilence(fault{name: "expiry-leader-stop", what: "the holder is stopped (SIGSTOP), and just before its lease ends the leader is stopped for longer than the TTL",
		serviceFault: stopLeader}),
}

// afterSilence stops the holder before the leader's fault, which comes just before the lease would end.
// Unlike in a pause the holder looks at its lock before it writes.
func afterSilence(f fault) fault {
	then := f.serviceFault
	f.leader, f.silent, f.elects, f.hazard = true, true, true, failover
	f.inject, f.undo = pauseVictim, resumeVictim
	f.serviceFault = func(ctx context.Context, s *service, plan schedule) error {
		wait(ctx, time.After(plan.Leader))
		return then(ctx, s, plan)
	}
	return f
}

func killLeader(ctx context.Context, s *service, _ schedule) error {
	former, err := s.findLeader(ctx, nobody)
	if err != nil {
		return err
	}
	if err := s.kill(ctx, former); err != nil {
		return err
	}
	if s.promote != nil {
		err = s.promote(ctx, former)
	}
	if err == nil {
		_, err = s.findLeader(ctx, former)
	}
	return errors.Join(err, s.startAgain(ctx, former))
}

func stopLeader(ctx context.Context, s *service, _ schedule) error {
	former, err := s.findLeader(ctx, nobody)
	if err != nil {
		return err
	}
	return s.stopped(ctx, []int{former}, func(ctx context.Context) error { return s.outlast(ctx, former) })
}

func isolateLeader(ctx context.Context, s *service, _ schedule) error {
	former, err := s.findLeader(ctx, nobody)
	if err != nil {
		return err
	}
	restore, err := s.isolate(ctx, former)
	if err == nil {
		err = s.outlast(ctx, former)
	}
	return errors.Join(err, restore())
}

// outlast returns when another server leads, and at least when more than a TTL has passed.
func (s *service) outlast(ctx context.Context, former int) error {
	end := time.After(s.ttl * 5 / 4)
	_, err := s.findLeader(ctx, former)
	wait(ctx, end)
	return err
}

// nobody is no server's number.
const nobody = -1

// findLeader returns the number of the server that leads. That isn't former, which may not know
// that it was deposed.
func (s *service) findLeader(ctx context.Context, former int) (leader int, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		if leader, err = s.leader(ctx, former); err == nil && leader == nobody {
			err = errors.New("there is no leader")
		}
		return err
	})
	return leader, err
}
