package zkbackend_test

import (
	"testing"
	"testing/synctest"
)

// A lock's node that was made and never used doesn't go with the session: it is removed on another
// one.
func TestUnusedContainerOutlastsASession(t *testing.T) {
	for what, when := range map[string]string{"before it is used": "multi", "before it is removed": "delete"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				l := open(t, s)
				const session = 3 // l's; two were probes
				made, ended, refused := false, false, false
				s.scripts(func(r request) verdict {
					made = made || r.op == "container"
					if made && !ended && r.op == when {
						ended = true
						s.endSession(session)
						return hangUp
					}
					if made && r.op == "multi" && !refused { // the node's creation, not what Release asks for
						refused = true
						return refuse
					}
					return serve
				})
				if _, err := l.Acquire(t.Context(), "a"); !contains(err, "permission") {
					t.Fatalf("Acquire = %v, want ZooKeeper's error", err)
				}
				eventually(t, "it is removed", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return ended && s.tree.nodes["/locker/a"] == nil
				})
			})
		})
	}
}
