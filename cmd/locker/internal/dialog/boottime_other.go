//go:build !linux

package dialog

// boottime is 0: there is no clock with this name.
func boottime() int64 { return 0 }
