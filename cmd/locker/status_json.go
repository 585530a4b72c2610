package main

import (
	"encoding/json"
	"strings"
)

// Rows have texts, numbers, and times of momentOf alone, which are always JSON.

func (r statusRow) json() string {
	text, _ := json.MarshalIndent(r, "", "  ")
	return string(text) + "\n"
}

func rowsJSON(rows []statusRow) string {
	if rows == nil {
		rows = []statusRow{}
	}
	text, _ := json.MarshalIndent(rows, "", "  ")
	return string(text) + "\n"
}

// rowsNDJSON is an object on each line.
func rowsNDJSON(rows []statusRow) string {
	var b strings.Builder
	for _, r := range rows {
		text, _ := json.Marshal(r)
		b.Write(append(text, '\n'))
	}
	return b.String()
}
