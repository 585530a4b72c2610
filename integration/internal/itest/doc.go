// Package itest contains what the packages of integration share: containers, networks and ports,
// the process of another holder, and the steps of tests.
package itest
