//go:build unix

package main

import (
	"log"
	"os"
	"os/signal"
	"syscall"
)

// stopProcess makes the system stop this process, with all its threads, until kill -CONT continues
// it. stopProcess waits for SIGCONT, because this thread may run for a moment before the stop
// reaches it.
func stopProcess() {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		log.Fatal(err)
	}
	<-woken
}
