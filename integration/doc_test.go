// Package integration holds what can only be tested from outside: the rules of the house, and what a consumer gets.
package integration
