//go:build unix

package pg

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// A table of the epoch that was dropped isn't made again while the sequence shows that tokens were
// given out, also for a role that may not look. docs/postgres.md says how to go on.
func TestPostgresDroppedEpoch(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	const role, password = "newcomer", "open-sesame"
	s.exec(t, "create role "+role+" login password '"+password+"'", "drop schema if exists locker cascade")
	t.Cleanup(func() {
		s.exec(t, "drop owned by "+role, "drop role "+role, "drop schema if exists locker cascade")
	})
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	s.exec(t, "update locker.locker_epoch set epoch = epoch + 1, reached = 0")
	before := step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	s.exec(t, "drop table locker.locker_epoch", "grant usage, create on schema locker to "+role)
	itest.RefusedAtOpen(t, s.URL, "locker_epoch", "let tokens fall")
	itest.RefusedAtOpen(t, itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword(role, password) }), "locker_epoch", "permission")

	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, "begin;\n"+pgbackend.Migration("locker")+"\n"+strings.Join(documentedGrants(t, u.User.Username()), ";\n")+
		";\nupdate locker.locker_epoch set epoch = ("+before.String()+"::bigint >> 48) + 1, protocol = 1;\ncommit")
	later(t, before, step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t)))
}
