//go:build unix

package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
)

// diskPack tests what waits for the disk.
func (s *Service) diskPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I14", Name: "acquisition-waits-for-no-disk", Run: s.noWaitForDisk,
			Why: "the server writes a record for every 33rd token; if one acquisition waits until " +
				"that is on disk, all that share its connection do"},
		{ID: "I15", Name: "how-far-tokens-are-survives-a-crash", Run: s.reachIsKept,
			Why: "after a crash the sequence is moved on from the value that was written down; if a " +
				"crash undoes that, the tokens above it are given out twice"},
	}
}

// waitForDisk has the server wait for the disk until the case ends, as one does whose data must
// survive a crash of the machine. further are other settings, name = value.
func (s *Service) waitForDisk(t conformance.T, further ...string) {
	t.Helper()
	s.set(t, append([]string{"fsync = on"}, further...)...)
}

// set changes settings of the server, name = value, until the case ends.
func (s *Service) set(t conformance.T, settings ...string) {
	t.Helper()
	t.Cleanup(func() { s.exec(t, "alter system reset all", "select pg_reload_conf()") })
	for _, setting := range settings {
		s.exec(t, "alter system set "+setting)
	}
	s.exec(t, "select pg_reload_conf()")
}

// noWaitForDisk counts how often a process of the server has waited until its records were on disk,
// while tokens were drawn that need a record each 33rd time. The process that writes what nobody
// waits for is slowed down, so that it is hardly in the count.
func (s *Service) noWaitForDisk(t conformance.T, _ *conformance.Harness) {
	s.waitForDisk(t, "wal_writer_delay = '10s'")
	l, name := s.open(t), step.LockName(t)
	step.Release(t, step.Acquire(t, l, name)) // the first of a Locker may move the sequence on, which waits
	const records = 20
	before := s.syncs(t)
	for range 33 * records {
		step.Release(t, step.Acquire(t, l, name))
	}
	step.Close(t, l)
	step.Eventually(t, step.Limit, func() error { // a session's counts are complete when it has ended
		if n := admin[int](t, s, "select count(*) from pg_stat_activity where usename = $1", pgUser); n > 0 {
			return fmt.Errorf("%d sessions have not ended", n)
		}
		return nil
	})
	if n := s.syncs(t) - before; n >= records/2 {
		t.Errorf("the server has waited for the disk %d times, while %d tokens were drawn", n, 33*records)
	}
}

// reachIsKept draws tokens past the value at which a Locker writes down how far they are, and kills a
// process of the server at once, which loses all that it hasn't written. The process that writes what
// nobody waits for is slowed down, after it was woken: asleep, it would write at once.
func (s *Service) reachIsKept(t conformance.T, _ *conformance.Harness) {
	s.set(t, "wal_writer_delay = '10s'")
	const reached = "select reached from locker.locker_epoch"
	l, name := s.open(t), step.LockName(t)
	draw := func(n int) {
		for range n {
			step.Release(t, step.Acquire(t, l, name))
		}
	}
	draw(100)
	before := admin[int64](t, s, reached)
	const ahead = 1 << 16 // tokens that may be given out until that is written down: see reachStep in pgbackend
	admin[int64](t, s, "select setval('"+pgSequence+"', $1)", before+ahead-5)
	draw(10)
	written := admin[int64](t, s, reached)
	if written <= before {
		t.Fatalf("reached is %d after %d, want more: it was passed by more than %d", written, before, ahead)
	}
	step.Close(t, l) // the next connection would write it down again
	victim, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer func() { _ = victim.Close(context.Background()) }()
	s.crash(t, false)
	if after := admin[int64](t, s, reached); after < written {
		t.Errorf("reached is %d after a crash, and was %d", after, written)
	}
}

// syncs counts how often the server's processes have waited until records were on disk.
func (s *Service) syncs(t conformance.T) int {
	t.Helper()
	return admin[int](t, s, "select wal_sync from pg_stat_wal")
}
