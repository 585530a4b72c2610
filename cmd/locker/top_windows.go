package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// drawable has the console of out act on escape sequences, as other terminals do. restore undoes that.
func drawable(out *os.File) (restore func(), err error) {
	console := windows.Handle(out.Fd())
	var before uint32
	if err := windows.GetConsoleMode(console, &before); err != nil {
		return nil, err
	}
	drawing := before | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	if err := windows.SetConsoleMode(console, drawing); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, before) }, nil
}
