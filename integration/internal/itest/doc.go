// Package itest is what the packages of integration share: containers, networks and ports, the process of another holder,
// and the steps that tests are made of.
package itest
