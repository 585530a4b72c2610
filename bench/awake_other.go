//go:build !linux

package main

import "errors"

const canKeepAwake = false

// Start returns an error: the system has no priority that is low enough.
func (*Awake) Start(int, *int) error { return errors.ErrUnsupported }
