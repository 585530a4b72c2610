package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/cmd/locker/internal/pace"
)

// Lock is one lock of a list.
type Lock struct {
	Key  string          // what distinguishes it from the others of the list
	JSON json.RawMessage // what the page gets; it is the same as long as nothing has changed
}

// picture is all locks as one look found them. It never changes.
type picture struct {
	locks map[string]json.RawMessage
	list  []json.RawMessage // the same, in the order of the list; empty if the look failed
	at    time.Time         // when the look began
	took  time.Duration     // how long it took
	note  string            // which locks are left out; empty: none
	err   error             // why the look failed; then locks are from the last look that succeeded
}

// hub looks at the service for all viewers together, and only while there is one. The pause between two looks is the
// same if all viewers go in between and another one comes.
type hub struct {
	every time.Duration
	list  func(context.Context) ([]Lock, string, error)
	turn  chan struct{} // full while somebody looks, or waits until a look is due

	mu      sync.Mutex
	viewers int
	stop    context.CancelFunc // of the looks for the viewers that there are
	last    *picture           // nil before the first look after a time without viewers
	due     time.Time          // when the next look may begin
	next    chan struct{}      // is closed when there is a later picture
}

func newHub(every time.Duration, list func(context.Context) ([]Lock, string, error)) *hub {
	return &hub{every: every, list: list, turn: make(chan struct{}, 1), next: make(chan struct{})}
}

// maxViewers bounds what a page that is opened again and again costs.
const maxViewers = 100

// join begins a view, which leave ends. It is false if there are too many.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers == maxViewers {
		return false
	}
	h.viewers++
	if h.viewers == 1 {
		if !time.Now().Before(h.due) {
			h.last = nil // this viewer is shown nothing older than others are
		}
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.repeat(ctx)
	}
	return true
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers--
	if h.viewers == 0 {
		h.stop()
	}
}

// repeat looks until ctx ends. A look that is under way then goes on, for a viewer that comes soon.
func (h *hub) repeat(ctx context.Context) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-h.turn }()
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Until(h.due)): // only the one whose turn it is changes it
			h.look(context.WithoutCancel(ctx))
		case <-ctx.Done():
		}
	}
}

// after returns the newest picture as soon as that isn't seen.
func (h *hub) after(ctx context.Context, seen *picture) (*picture, error) {
	for {
		h.mu.Lock()
		last, next := h.last, h.next
		h.mu.Unlock()
		if last != nil && last != seen {
			return last, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look lists once.
func (h *hub) look(ctx context.Context) {
	p := &picture{at: time.Now()}
	list, note, err := h.list(ctx)
	p.took, p.note, p.err = time.Since(p.at), note, err
	p.locks = make(map[string]json.RawMessage, len(list))
	for _, l := range list {
		p.locks[l.Key] = l.JSON
		p.list = append(p.list, l.JSON)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = time.Now().Add(pace.Pause(h.every, p.took))
	if err != nil && h.last != nil {
		p.locks, p.note = h.last.locks, h.last.note
	}
	h.last = p
	close(h.next)
	h.next = make(chan struct{})
}

// difference is what a viewer of one picture needs to know of a later one.
type difference struct {
	Added   []json.RawMessage `json:"added,omitempty"`
	Changed []json.RawMessage `json:"changed,omitempty"`
	Removed []string          `json:"removed,omitempty"` // keys
}

// since is in the order of keys.
func (p *picture) since(seen *picture) difference {
	var d difference
	for _, key := range sortedKeys(p.locks) {
		switch before, known := seen.locks[key]; {
		case !known:
			d.Added = append(d.Added, p.locks[key])
		case !bytes.Equal(before, p.locks[key]):
			d.Changed = append(d.Changed, p.locks[key])
		}
	}
	for _, key := range sortedKeys(seen.locks) {
		if _, still := p.locks[key]; !still {
			d.Removed = append(d.Removed, key)
		}
	}
	return d
}

// all is in the order of keys.
func (p *picture) all() []json.RawMessage {
	list := make([]json.RawMessage, 0, len(p.locks))
	for _, key := range sortedKeys(p.locks) {
		list = append(list, p.locks[key])
	}
	return list
}

func sortedKeys(locks map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(locks))
	for key := range locks {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
