package ui

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// service is a list that tests change.
type service struct {
	mu    sync.Mutex
	looks int
	locks map[string]string
	note  string
	err   error
}

func (s *service) set(key, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks == nil {
		s.locks = make(map[string]string)
	}
	if s.locks[key] = text; text == "" {
		delete(s.locks, key)
	}
}

func (s *service) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *service) leaveOut(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = note
}

func (s *service) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func (s *service) list(context.Context) ([]Lock, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	var list []Lock
	for key, text := range s.locks {
		list = append(list, Lock{Key: key, JSON: json.RawMessage(text)})
	}
	return list, s.note, s.err
}

func next(t *testing.T, h *hub, seen *picture) *picture {
	t.Helper()
	p, err := h.after(t.Context(), seen)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOneLookForAllViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		h := newHub(time.Second, s.list)
		time.Sleep(time.Minute)
		if s.looked() != 0 {
			t.Errorf("%d looks for nobody", s.looked())
		}
		for range 5 {
			h.join()
		}
		time.Sleep(10500 * time.Millisecond)
		if s.looked() != 11 {
			t.Errorf("%d looks in 10 s for five viewers, want 11", s.looked())
		}
		for range 5 {
			h.leave()
		}
		time.Sleep(time.Minute)
		if s.looked() != 11 {
			t.Errorf("%d looks after the last viewer has left", s.looked()-11)
		}
		h.join() // the looks begin again
		defer h.leave()
		synctest.Wait()
		if s.looked() != 12 {
			t.Errorf("%d looks, want 12: a new viewer doesn't wait", s.looked())
		}
	})
}

// A viewer that is slow gets the difference to what it has seen, and not each picture between.
func TestDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		s.set("a", "1")
		s.set("b", "1")
		s.set("c", "1")
		h := newHub(time.Second, s.list)
		h.join()
		defer h.leave()
		first := next(t, h, nil)
		s.set("a", "2")
		time.Sleep(time.Second)
		s.set("a", "3")
		s.set("b", "")
		s.set("d", "1")
		time.Sleep(time.Second)
		synctest.Wait()
		want := difference{Added: raw("1"), Changed: raw("3"), Removed: []string{"b"}}
		if got := next(t, h, first).since(first); !reflect.DeepEqual(got, want) {
			t.Errorf("the difference is %+v, want %+v", got, want)
		}
	})
}

func raw(texts ...string) []json.RawMessage {
	var list []json.RawMessage
	for _, text := range texts {
		list = append(list, json.RawMessage(text))
	}
	return list
}

// A look that fails is shown, and doesn't take the locks away.
func TestLookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service
		s.set("a", "1")
		h := newHub(time.Second, s.list)
		h.join()
		defer h.leave()
		first := next(t, h, nil)
		failure := errors.New("no answer")
		s.fail(failure)
		second := next(t, h, first)
		if !errors.Is(second.err, failure) || !reflect.DeepEqual(second.since(first), difference{}) {
			t.Errorf("after a look that failed with %v: %+v", second.err, second.since(first))
		}
		s.fail(nil)
		if third := next(t, h, second); third.err != nil || len(third.locks) != 1 {
			t.Errorf("after the next look: %v, %d locks", third.err, len(third.locks))
		}
	})
}

// Viewers that come and go have the service asked no more often than one that stays.
func TestViewersThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const looksFor = 300 * time.Millisecond // so the pause is 3 s
		var s service
		h := newHub(time.Second, func(ctx context.Context) ([]Lock, string, error) {
			time.Sleep(looksFor)
			return s.list(ctx)
		})
		s.set("a", "1")
		for range 100 { // during the first look
			h.join()
			time.Sleep(time.Millisecond)
			h.leave()
		}
		h.join()
		first := next(t, h, nil) // the look went on
		h.leave()
		s.set("a", "2")
		others := 0
		for range 100 {
			h.join()
			if next(t, h, nil) != first {
				others++
			}
			h.leave()
			time.Sleep(10 * time.Millisecond)
		}
		if others > 0 {
			t.Errorf("%d of 100 viewers that come during the pause see another picture", others)
		}
		if n := s.looked(); n != 1 {
			t.Errorf("%d looks, want 1 before the pause is over", n)
		}
		time.Sleep(time.Minute)
		h.join()
		defer h.leave()
		if p := next(t, h, nil); p == first || s.looked() != 2 {
			t.Errorf("%d looks, want 2, and nothing old after the pause", s.looked())
		}
	})
}

func TestViewersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(time.Second, new(service).list)
		for range maxViewers {
			if !h.join() {
				t.Fatal("a viewer is refused too early")
			}
			defer h.leave()
		}
		if h.join() {
			t.Error("one viewer too many")
		}
	})
}
