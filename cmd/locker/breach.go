package main

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// breachRow is who takes a lock or a permit away, when and why.
type breachRow struct {
	By     string     `json:"by,omitempty"`
	Reason string     `json:"reason,omitempty"`
	At     *time.Time `json:"at,omitempty"`
	Slot   int        `json:"slot,omitempty"` // of a permit
}

func breachOf(b locker.Breach) *breachRow {
	return &breachRow{By: b.By, Reason: b.Reason, At: momentOf(b.At), Slot: b.Slot}
}

func (b breachRow) text() string {
	text := "being taken away"
	if b.Slot > 0 {
		text = fmt.Sprintf("slot %d is being taken away", b.Slot)
	}
	if b.By != "" {
		text += " by " + shown(b.By)
	}
	if b.At != nil {
		text += " at " + b.At.Local().Format(time.DateTime)
	}
	if b.Reason != "" {
		text += ": " + shown(b.Reason)
	}
	return text
}
