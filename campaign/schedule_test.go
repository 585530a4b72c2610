package main

import (
	"reflect"
	"testing"
	"time"
)

func TestScheduleIsRepeated(t *testing.T) {
	const ttl = 3 * time.Second
	first := newSchedule(7, "redis", "cut", 3, ttl)
	if again := newSchedule(7, "redis", "cut", 3, ttl); !reflect.DeepEqual(first, again) {
		t.Errorf("the same seed gives %+v and then %+v", first, again)
	}
	for name, other := range map[string]schedule{
		"seed":    newSchedule(8, "redis", "cut", 3, ttl),
		"backend": newSchedule(7, "etcd", "cut", 3, ttl),
		"fault":   newSchedule(7, "redis", "kill", 3, ttl),
		"round":   newSchedule(7, "redis", "cut", 4, ttl),
	} {
		if reflect.DeepEqual(first, other) {
			t.Errorf("another %s gives the same schedule", name)
		}
	}
	waits := 0
	for round := range 100 {
		s := newSchedule(7, "redis", "cut", round, ttl)
		if s.Think < 0 || s.Think >= ttl/2 || len(s.Rival) != rivalUpdates || len(s.Warm[0]) != warmUpdates {
			t.Fatalf("round %d: %+v", round, s)
		}
		if s.Waits {
			waits++
		}
	}
	if waits < 20 || waits > 80 {
		t.Errorf("the rival waits in %d of 100 rounds, want about a half", waits)
	}
}
