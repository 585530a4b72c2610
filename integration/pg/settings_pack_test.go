//go:build unix

package pg

import (
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// settingsPack tests settings that administrators make for a role, a database or a server, and that
// Lockers must tolerate.
func (s *Service) settingsPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I50", Name: "settings-of-the-role-break-nothing", Run: s.roleSettings,
			Why: "timeouts that are right for queries must not end a wait, a renewal, or an " +
				"idle session that has a thousand leases"},
		{ID: "I51", Name: "many-begin-an-epoch-together", Run: s.epochTogether,
			Why: "after a failover all Lockers reconnect at once; a Locker that finds that " +
				"another one has just raised the epoch must not fail because of that"},
	}
}

// roleSettings waits, and holds a lease, for longer than all of the timeouts.
func (s *Service) roleSettings(t conformance.T, _ *conformance.Harness) {
	const timeout, longer = 2 * time.Second, 2500 * time.Millisecond // they hold for a busy server until a connection has set its own
	settings := map[string]string{
		"lock_timeout":                        "10ms",
		"statement_timeout":                   timeout.String(),
		"idle_session_timeout":                timeout.String(),
		"idle_in_transaction_session_timeout": "10ms",
		"default_transaction_isolation":       "serializable",
		"default_transaction_deferrable":      "on",
		"synchronous_commit":                  "off",
		"search_path":                         "pg_temp",
		"client_min_messages":                 "debug5",
		"standard_conforming_strings":         "off",
		"intervalstyle":                       "sql_standard",
		"datestyle":                           "german",
		"bytea_output":                        "escape",
		"plan_cache_mode":                     "force_generic_plan",
		"timezone":                            "Asia/Kathmandu",
		"row_security":                        "off",
	}
	if admin[int](t, s, "select current_setting('server_version_num')::int") >= 17_00_00 {
		settings["transaction_timeout"] = "1990ms"
	}
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)) // what is made on first use is there
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" reset all") })
	for name, value := range settings {
		s.exec(t, "alter role "+pgUser+" set "+name+" = '"+value+"'")
	}
	l, other, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	step.Pass(t, longer)
	step.WantLive(t, lease, other)
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	step.Pass(t, longer)
	step.WantLive(t, next, l)
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	step.Release(t, next)
}

// epochTogether opens Lockers at the same time where the epoch has to be raised. The role asks for
// transactions in which a row that somebody else has changed meanwhile is an error.
func (s *Service) epochTogether(t conformance.T, _ *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	last := step.FreeWithin(t, itest.ShortWait, l, name)
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" reset all") })
	s.exec(t, "alter role "+pgUser+" set default_transaction_isolation = 'serializable'", "update locker.locker_epoch set system = 1")
	s.waitForDisk(t, "commit_delay = 100000", "commit_siblings = 0") // so that they meet
	var all sync.WaitGroup
	opened, problems := make([]locker.Locker, 16), make([]error, 16)
	for i := range opened {
		all.Go(func() { opened[i], problems[i] = locker.Open(t.Context(), s.URL) })
	}
	all.Wait()
	for i, l := range opened {
		if err := problems[i]; err != nil {
			t.Errorf("Open while others raise the epoch = %v, want a Locker", err)
			continue
		}
		token := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, l), name)
		later(t, last, token)
		last = token
	}
}
