package pgbackend_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
)

// restoringTx is a transaction that gets its lock just before a restore ends.
type restoringTx struct {
	answeringTx
	restore func()
}

func (tx *restoringTx) QueryRow(context.Context, string, ...any) pgx.Row { return tx }

func (tx *restoringTx) Scan(dest ...any) error {
	defer tx.restore()
	return tx.answeringTx.Scan(dest...)
}

// A restore that replaces the sequence doesn't replace the server: a transaction that has its lock
// gets a token of the next sequence.
func TestLockTxOverARestore(t *testing.T) {
	for name, c := range map[string]struct{ ends, underALease bool }{
		"whose connection ends":                     {ends: true},
		"whose connection doesn't find a sequence":  {},
		"the same with a lease on that connection":  {underALease: true},
		"whose connection ends, with a lease there": {ends: true, underALease: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			l := open(t, f)
			last := txToken(t, l)
			if c.underALease {
				if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil {
					t.Fatal(err)
				}
			}
			restore := func() {
				f.change(func(f *fake) {
					f.remade, f.raised = 1, 1
					f.before = func(sql string) string {
						if strings.HasPrefix(sql, "nextval(900)") {
							return "XX000 could not open relation with OID 900"
						}
						return ""
					}
				})
				if c.ends {
					f.endAll("57P01")
				}
			}
			token, err := l.LockTx(t.Context(), &restoringTx{answeringTx{answers: []string{"granted"}}, restore}, "b")
			if err != nil || token <= last {
				t.Errorf("LockTx = %v, %v, want a token above %v", token, err, last)
			}
		})
	}
}
