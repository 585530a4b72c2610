//go:build unix && !linux

package process

// awaitStopped doesn't wait: there is no way to ask that holds for all these systems.
func awaitStopped(int) {}
