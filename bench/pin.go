package main

import "runtime"

// The servers have a CPU to themselves, the last one. Otherwise the system keeps moving a server to
// the CPU of its client and back. Then a request takes 10 µs for a while, because no idle CPU needs
// to wake, and 60 µs at other times, and ratios mean nothing.

var cpus = runtime.NumCPU() // counted before this process is kept off the servers' CPU

// pinned reports whether the servers and this process have separate CPUs.
var pinned = false

func serverCPU() int { return cpus - 1 }
