// Package etcd runs the suite, and tests of its own, on etcd, on clusters of three members.
//
// A pack is the list of a service's own cases, which the suite runs after those that are common to
// all backends.
package etcd
