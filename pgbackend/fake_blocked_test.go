package pgbackend_test

import "strconv"

// Statements of the fake server that block: those that a test has answered with "silence".

// blockedOn are the processes of one server whose statements block.
func (f *fake) blockedOn(server int) (rows [][]string) {
	for c := range f.conns {
		if c.stuck && c.server == server {
			rows = append(rows, []string{strconv.Itoa(c.pid)})
		}
	}
	return rows
}

// cancel cancels a statement that blocks, if its process is one of the server's.
func (f *fake) cancel(server int, pid string) {
	f.cancelled = append(f.cancelled, server)
	for c := range f.conns {
		if c.stuck && c.server == server && strconv.Itoa(c.pid) == pid {
			c.stuck = false
			_ = c.refuse("57014 canceling statement due to user request")
		}
	}
}
