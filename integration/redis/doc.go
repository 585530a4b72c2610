// Package redis runs the suite, and tests of its own, on Redis: alone, with Sentinel, and as a
// Cluster.
//
// A pack is the list of a service's own cases, which the suite runs after those that are common to
// all backends.
package redis
