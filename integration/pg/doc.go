// Package pg runs the suite, and tests of its own, on Postgres: alone, with a replica, and through
// PgBouncer.
//
// A pack is the list of a service's own cases, which the suite runs after those that are common to
// all backends.
package pg
