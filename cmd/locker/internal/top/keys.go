package top

import (
	"io"
	"strings"
	"unicode/utf8"
)

// key is a character that was typed, or one of the constants, which are no characters.
type key rune

const (
	keyQuit key = -1 - iota // Ctrl-C, Ctrl-D
	keyUp
	keyDown
	keyEnter
	keyBack   // Escape
	keyDelete // Backspace
)

// sequences are what keys send that are no characters. Ctrl-C is a character here, because the terminal
// doesn't make a signal of it.
var sequences = []struct {
	text string
	key  key
}{
	{"\x1b[A", keyUp}, {"\x1bOA", keyUp}, {"\x1b[B", keyDown}, {"\x1bOB", keyDown},
	{"\r", keyEnter}, {"\n", keyEnter}, {"\x03", keyQuit}, {"\x04", keyQuit}, {"\x7f", keyDelete}, {"\b", keyDelete},
}

// keysOf reads keys until in ends.
func keysOf(in io.Reader) <-chan key {
	keys := make(chan key, 100)
	go func() {
		defer close(keys)
		buffer := make([]byte, 256)
		for {
			n, err := in.Read(buffer)
			for _, k := range parse(string(buffer[:n])) {
				select {
				case keys <- k:
				default: // typed ahead of a screen that is stuck
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// parse takes what was read at once for whole keys: a terminal writes the sequence of a key at once. An
// Escape before anything that isn't known is the key, and what follows it is dropped, so that a key which
// is unknown here types nothing into the filter.
func parse(text string) []key {
	var keys []key
next:
	for text != "" {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(text, s.text); ok {
				keys, text = append(keys, s.key), rest
				continue next
			}
		}
		if text[0] == '\x1b' {
			if len(text) == 1 {
				keys = append(keys, keyBack)
			}
			return keys
		}
		r, size := utf8.DecodeRuneInString(text)
		if r >= ' ' && r != utf8.RuneError {
			keys = append(keys, key(r))
		}
		text = text[size:]
	}
	return keys
}
