package main

import "runtime"

// Servers have a CPU of their own, the last one. Otherwise the system moves a server to the CPU of its client and back, as it
// likes: then a request takes 10 µs for a while and 60 µs for another, because it need not wake an idle CPU, and ratios mean nothing.

var cpus = runtime.NumCPU() // before this process is kept off the last

// pinned reports whether servers and this process are apart.
var pinned = false

func serverCPU() int { return cpus - 1 }
