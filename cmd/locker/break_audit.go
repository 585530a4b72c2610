package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// auditLine is what a break has done, for a log.
type auditLine struct {
	Time     time.Time `json:"time"`
	Action   string    `json:"action"`
	Backend  string    `json:"backend"`
	Name     string    `json:"name"`
	Slot     int       `json:"slot,omitempty"` // of a permit, from 1 on; -1: the line of those who wait for one
	Token    string    `json:"token"`          // a text because JSON's numbers don't hold all tokens exactly
	Holder   string    `json:"holder,omitempty"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Mode     string    `json:"mode"`                // "safe" or "now"
	WithinMS *int64    `json:"within_ms,omitempty"` // 0: the lock is free for others now; -1: no time is known; left out with an error
	Others   int       `json:"others,omitempty"`    // leases that have ended with it; with an error: that would end
	Error    string    `json:"error,omitempty"`     // then the lease may be marked all the same, unless the error says that nothing has changed
}

// audit is the line of a break of v.
func (v victim) audit(l locker.Locker, b locker.Breach, effect locker.Effect, failed error) auditLine {
	line := auditLine{
		Time: b.At, Action: "break", Backend: l.Guarantees().Backend, Name: v.name, Slot: v.slot, Token: v.token.String(), Holder: v.row.Holder.Label,
		By: b.By, Reason: b.Reason, Mode: "safe", Others: effect.Others,
	}
	if b.AtOnce {
		line.Mode = "now"
	}
	if failed != nil {
		line.Error = printable(failed.Error())
		return line
	}
	ms := milliseconds(effect.Within)
	if effect.Within < 0 {
		ms = -1
	}
	line.WithinMS = &ms
	return line
}

// auditLog is where lines go: the error output, and the file of --audit. Several goroutines may
// write.
type auditLog struct {
	mu     sync.Mutex
	stderr io.Writer
	file   io.WriteCloser // nil: the error output alone
}

// openAudit opens the file before anything is changed; empty: there is none.
func openAudit(stderr io.Writer, path string) (*auditLog, error) {
	a := &auditLog{stderr: stderr}
	if path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--audit: %w", withoutPath(err))
		}
		a.file = file
	}
	return a, nil
}

func (a *auditLog) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}

// write writes a line to the file first: nobody may read stderr any more, and then the file has the line all
// the same. That is enough; without a file it is an error.
func (a *auditLog) write(line auditLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_, err = a.file.Write(text)
	}
	if shown := a.show(text); a.file == nil {
		err = shown
	}
	return err
}

// show writes to stderr, and waits for a limited time: its reader may have stalled.
func (a *auditLog) show(text []byte) error {
	written := make(chan error, 1)
	go func() {
		_, err := a.stderr.Write(text)
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-time.After(stderrLimit):
		return errors.New("nobody reads the error output")
	}
}
