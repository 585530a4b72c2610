//go:build unix

package integration

import (
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// settingsPack is what administrators set for a role, a database or a server, and Lockers must live with.
func (s *pgService) settingsPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I50", Name: "settings-of-the-role-break-nothing", Run: s.roleSettings,
			Why: "timeouts that are right for queries end a wait, a renewal or an idle session with a thousand leases"},
	}
}

// roleSettings waits, and holds a lease, for longer than all of the timeouts.
func (s *pgService) roleSettings(t conformance.T, _ *conformance.Harness) {
	const timeout, longer = 100 * time.Millisecond, 300 * time.Millisecond
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
		settings["transaction_timeout"] = "90ms"
	}
	free(t, soon, keep(t, s.open(t)), lockName(t)) // what is made on first use is there
	t.Cleanup(func() { s.exec(t, "alter role "+pgUser+" reset all") })
	for name, value := range settings {
		s.exec(t, "alter role "+pgUser+" set "+name+" = '"+value+"'")
	}
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(far))
	waiter := wait(t, other, name, locker.WithTTL(far))
	pass(t, longer)
	held(t, lease, other)
	waiter.pending(t)
	release(t, lease)
	next := waiter.granted(t, soon)
	pass(t, longer)
	held(t, next, l)
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	release(t, next)
}
