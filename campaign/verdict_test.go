package main

import (
	"reflect"
	"testing"
	"time"
)

const msec = moment(time.Millisecond)

// at is a section in milliseconds.
func at(asked, granted, held, lost, deadline, released moment) section {
	return section{Asked: asked * msec, Granted: granted * msec, Held: held * msec, Lost: lost * msec, Deadline: deadline * msec, Released: released * msec}
}

func with(token int64, s section) section {
	s.Token = token
	return s
}

func returned(s section) section {
	s.Returned = true
	return s
}

func duration(d time.Duration) *time.Duration {
	d *= time.Millisecond
	return &d
}

// TestJudge has histories of each kind, with the planted mistakes among them.
func TestJudge(t *testing.T) {
	hold := func(s section) *section { return &s }
	for _, tc := range []struct {
		name string
		h    history
		want findings
	}{
		{"nothing goes wrong", history{
			Hold: hold(at(0, 10, 90, 0, 3000, 100)), Rival: []section{at(20, 101, 120, 0, 3100, 121)},
			Injected: 50 * msec, Acknowledged: 2,
		}, findings{Acknowledged: 2}},
		{"a stopped holder writes without a fence", history{
			Hold: hold(at(0, 10, 50, 4000, 3000, 4001)), Rival: []section{at(20, 3050, 3060, 0, 6050, 3061)},
			Injected: 50 * msec, Silent: true, Bound: 3 * time.Second, Acknowledged: 3, Lost: 1,
		}, findings{Acknowledged: 3, Lost: 1, Margin: duration(50), Grant: duration(3000)}},
		{"the fence refuses it", history{
			Hold: hold(with(1, at(0, 10, 50, 4000, 3000, 4001))), Rival: []section{with(2, at(20, 3050, 3060, 0, 6050, 3061))},
			Injected: 50 * msec, Silent: true, Bound: 3 * time.Second, Acknowledged: 2, Refused: 1,
		}, findings{Acknowledged: 2, Refused: 1, Margin: duration(50), Grant: duration(3000)}},
		{"a holder that has no means to know", history{
			Hold: hold(at(0, 10, 4000, 0, 0, 4001)), Rival: []section{at(20, 3050, 5000, 0, 0, 5001)},
			Injected: 50 * msec, Silent: true, Bound: 3 * time.Second,
		}, findings{Overlap: 950 * time.Millisecond, Grant: duration(3000)}},
		{"planted: the deadline is counted from the reply", history{
			Hold: hold(at(0, 10, 3098, 3100, 3100, 3101)), Rival: []section{at(20, 3050, 3060, 0, 6050, 3061), at(3062, 3063, 3400, 0, 6063, 3401)},
			Injected: 50 * msec, Silent: true, Bound: 3 * time.Second,
		}, findings{Overlap: 45 * time.Millisecond, Margin: duration(-50), Grant: duration(3000)}},
		{"planted: a late release frees the rival's lock", history{
			Hold: hold(at(0, 10, 50, 4000, 3000, 4001)), Victim: []section{at(4003, 4004, 4006, 0, 7004, 4007)},
			Rival: []section{at(20, 3050, 4300, 0, 6050, 4301)}, Injected: 50 * msec, Silent: true, Bound: 3 * time.Second,
		}, findings{Overlap: 2 * time.Millisecond, Margin: duration(50), Grant: duration(3000)}},
		{"the holder is killed", history{
			Killed: true, Rival: []section{at(20, 5000, 5010, 0, 0, 5011)}, Injected: 50 * msec, Silent: true, Bound: 3 * time.Second,
		}, findings{Grant: duration(4950), Late: true}},
		{"the rival waits in vain", history{
			Hold: hold(at(0, 10, 9000, 0, 0, 9001)), Injected: 50 * msec, Silent: true, RivalError: "deadline exceeded",
		}, findings{NotGranted: true}},
		{"the rival fails later", history{
			Rival: []section{at(20, 60, 70, 0, 0, 71)}, Injected: 50 * msec, RivalError: "no connection",
		}, findings{Failed: true}},
		{"a token is not larger", history{
			Victim: []section{with(7, at(0, 10, 20, 0, 0, 21))}, Hold: hold(with(8, at(100, 110, 120, 0, 0, 121))),
			Rival: []section{with(8, at(130, 140, 150, 0, 0, 151))}, Injected: 50 * msec,
		}, findings{OutOfOrder: 1}},
		{"planted: a token from before the grant", history{
			Hold: hold(with(8, at(100, 110, 120, 0, 0, 121))), Rival: []section{with(7, at(90, 140, 150, 0, 0, 151))}, Injected: 50 * msec,
		}, findings{Reversed: 1}},
		{"a smaller token of a lease that was lost when its grant returned", history{
			Hold: hold(with(8, at(100, 110, 120, 0, 0, 121))), Rival: []section{with(7, at(90, 140, 0, 141, 130, 151))}, Injected: 50 * msec,
		}, findings{}},
		{"planted: a renewal brings a lost lease back", history{
			Hold: hold(returned(at(0, 10, 50, 4000, 3000, 4050))), Rival: []section{at(20, 3050, 4300, 0, 6050, 4301)},
			Injected: 50 * msec, Silent: true, Bound: 3 * time.Second,
		}, findings{Returned: 1, Margin: duration(50), Grant: duration(3000)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := judge(tc.h); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("judge = %+v, want %+v", got, tc.want)
			}
		})
	}
}
