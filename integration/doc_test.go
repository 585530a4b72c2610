// Package integration contains the tests that need several backends, and the tests of what is
// visible only from outside: the rules for imports, and what a consumer of the module gets. The
// folders redis, redlock, etcd, zk and pg contain the tests of one service each.
package integration
