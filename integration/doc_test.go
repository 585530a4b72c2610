// Package integration tests what takes several backends, and what can only be tested from outside: the rules for imports, and
// what a consumer of the module gets. Below it, the folders redis, redlock, etcd, zk and pg hold the tests of one service each.
package integration
