// Package redlock runs the suite, and tests of its own, on Redlock, on five independent Redis
// servers.
//
// A pack is the list of a service's own cases, which the suite runs after those that are common to
// all backends.
package redlock
