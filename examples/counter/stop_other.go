//go:build !unix

package main

import "log"

func stopProcess() { log.Fatal("--stop needs a Unix system") }
