package otellocker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencedlock/locker"
)

const (
	keyBackend   = attribute.Key("locker.backend")
	keyGroup     = attribute.Key("locker.group")
	keyOutcome   = attribute.Key("locker.outcome")
	keyContended = attribute.Key("locker.contended")
	keyCause     = attribute.Key("locker.cause")
	keyEnd       = attribute.Key("locker.end")
	keyErrorType = attribute.Key("error.type")
)

// setKey is what distinguishes the series of an instrument. An empty field is no attribute.
type setKey struct {
	group, outcome, cause, end, errorType string

	contended string // "true" or "false"
}

// set is a set of attributes in the forms that instruments take.
type set struct {
	record  []metric.RecordOption
	add     []metric.AddOption
	observe []metric.ObserveOption
}

// sets are made once and kept: then recording allocates nothing. There are few, because no field of
// a key is a lock's name.
type sets struct {
	base []attribute.KeyValue // of all sets

	mu   sync.Mutex
	made map[setKey]*set
}

func newSets(backend string, attrs []attribute.KeyValue) *sets {
	base := append(attrs[:len(attrs):len(attrs)], keyBackend.String(backend))
	return &sets{base: base, made: make(map[setKey]*set)}
}

func (s *sets) get(k setKey) *set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.made[k]; made != nil {
		return made
	}
	attrs := s.base[:len(s.base):len(s.base)]
	add := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	add(keyGroup, k.group)
	add(keyOutcome, k.outcome)
	add(keyCause, k.cause)
	add(keyEnd, k.end)
	add(keyErrorType, k.errorType)
	if k.contended != "" {
		attrs = append(attrs, keyContended.Bool(k.contended == "true"))
	}
	option := metric.WithAttributeSet(attribute.NewSet(attrs...))
	made := &set{[]metric.RecordOption{option}, []metric.AddOption{option}, []metric.ObserveOption{option}}
	s.made[k] = made
	return made
}

const (
	maxGroups  = 100
	otherGroup = "_other"
)

// groups are the values of locker.group.
type groups struct {
	of func(name string) string // nil: there are no groups

	mu    sync.Mutex
	known map[string]bool
	none  bool // a name without a group was seen
	full  bool // a group was called _other
}

// group returns the group of a lock's name; "": none.
func (g *groups) group(name string) string {
	if g.of == nil {
		return ""
	}
	group := strings.ToValidUTF8(g.of(name), "\uFFFD") // an exporter may refuse all metrics for one invalid value
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case group == "":
		g.none = true
		return ""
	case g.known[group]:
		return group
	case len(g.known) < maxGroups:
		g.known[group] = true
		return group
	}
	if !g.full {
		g.full = true
		otel.Handle(fmt.Errorf("otellocker: more than %d groups of locks: %q and further ones are counted as %s", maxGroups, group, otherGroup))
	}
	return otherGroup
}

// all returns every group that was seen; "": names without one.
func (g *groups) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for group := range g.known {
		list = append(list, group)
	}
	if g.none {
		list = append(list, "")
	}
	if g.full {
		list = append(list, otherGroup)
	}
	return list
}

// errorType is the value of error.type: "timeout", or the type of the innermost error. The number of
// types is the program's own.
func errorType(err error) string {
	if errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	for {
		var next error
		switch x := err.(type) { //nolint:errorlint // it walks the chain itself
		case interface{ Unwrap() error }:
			next = x.Unwrap()
		case interface{ Unwrap() []error }:
			if all := x.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return reflect.TypeOf(err).String()
		}
		err = next
	}
}
