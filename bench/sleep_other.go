//go:build !linux

package main

import "time"

func exactSleeps() {}

func exactSleep(d time.Duration) { time.Sleep(d) }
