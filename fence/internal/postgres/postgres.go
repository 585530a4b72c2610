// Package postgres has the SQL that both packages for Postgres run.
package postgres

import _ "embed"

// Schema makes the table of marks, unless it is there.
//
//go:embed schema.sql
var Schema string

// Claim raises a mark, and writes no row when that is higher.
//
//go:embed claim.sql
var Claim string

// Mark reads a mark.
const Mark = `SELECT token FROM locker_fence WHERE resource = $1`
