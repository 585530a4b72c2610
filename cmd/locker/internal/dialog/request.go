package dialog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

// request is a line of input: a check, or the error that answers an invalid one.
type request struct{ invalid string }

const (
	check = "check"

	// maxLine is the longest line that is looked at.
	maxLine = 4096

	// maxRepeated is the longest invalid request that its answer repeats.
	maxRepeated = 40

	// maxPending is how many requests may wait for their answers. If a program reads none of them,
	// its further requests stay in the pipe.
	maxPending = 1 << 16
)

// readRequests sends the lines of in to requests until in has ended. The last line may be without
// an end.
func readRequests(in io.Reader, requests chan<- request) {
	r := bufio.NewReaderSize(in, maxLine)
	for {
		text, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			requests <- request{invalid: fmt.Sprintf("invalid request of more than %d bytes: want the line %s", maxLine, check)}
		case len(text) > 0:
			requests <- parse(string(text))
		}
		if err != nil {
			return
		}
	}
}

func parse(text string) request {
	switch text = strings.TrimSpace(text); {
	case text == check:
		return request{}
	case len(text) > maxRepeated || !plain.Word(text):
		return request{invalid: "invalid request: want the line " + check}
	}
	return request{invalid: fmt.Sprintf("invalid request %q: want the line %s", text, check)}
}
