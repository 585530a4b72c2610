//go:build unix

package main

import (
	"log"
	"os"
	"os/signal"
	"syscall"
)

// stopProcess has the system stop this process, with all its threads, until it is woken by kill -CONT. It waits for that,
// because this thread may run on for a moment before the stop reaches it.
func stopProcess() {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		log.Fatal(err)
	}
	<-woken
}
