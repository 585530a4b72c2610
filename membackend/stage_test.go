package membackend

import (
	"fmt"
	"slices"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// stage is a service, and owners with the simplest possible clients, which note what is pushed to
// them.
type stage struct {
	server  *Server
	client  *client
	conn    *conn
	players map[string]*player

	// Guarded by the service's mutex, under which pushes come.
	pushed []string
	tokens []locker.Token // in the order of the grants
}

type player struct {
	acquisition
	stage *stage
	base  driver.Instant
}

func newStage() *stage {
	s := NewServer()
	c := &client{server: s, link: NewLink(), conn: new(conn)}
	return &stage{server: s, client: c, conn: c.conn, players: make(map[string]*player)}
}

func (st *stage) player(owner string) *player {
	p := st.players[owner]
	if p == nil {
		p = &player{stage: st}
		p.acquisition = acquisition{name: "lock", owner: owner, ttl: protocolTTL, client: st.client, to: p}
		if owner == "short" {
			p.ttl /= 3
		}
		st.players[owner] = p
	}
	return p
}

func (p *player) granted(token locker.Token, base driver.Instant) {
	p.base = base
	p.stage.tokens = append(p.stage.tokens, token)
	p.stage.pushed = append(p.stage.pushed, p.owner+" granted")
}

func (p *player) lost(error) { p.stage.pushed = append(p.stage.pushed, p.owner+" lost") }

func (p *player) broken(locker.Breach) { p.stage.pushed = append(p.stage.pushed, p.owner+" broken") }

// play executes a request and returns the answer in words.
func (st *stage) play(owner, do string) string {
	s, p := st.server, st.player(owner)
	if do == "expire" {
		return fmt.Sprint(s.Expire("lock"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Stamp()
	var a answer
	switch do {
	case "acquire", "try":
		a = s.acquire(&p.acquisition, do == "try", st.conn, now, now)
	case "renew":
		a = s.renew(&p.acquisition, now, now)
	case "release":
		s.release(&p.acquisition, now)
		return ""
	case "break", "break at once": // of the holder, which may be anybody
		_, found := s.takeAway("lock", s.locks["lock"].token, locker.Breach{By: owner, AtOnce: do == "break at once"}, now)
		return fmt.Sprint(found)
	default: // nothing: only what is pushed is checked
		return ""
	}
	if a.state == granted && !slices.Contains(st.tokens, a.token) {
		st.tokens = append(st.tokens, a.token)
	}
	return []string{gone: "gone", refused: "refused", queued: "queued", granted: "granted", broken: "broken"}[a.state]
}

func (st *stage) takePushed() []string {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	pushed := st.pushed
	st.pushed = nil
	return pushed
}

func (st *stage) names() int {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	return len(st.server.locks)
}

func (st *stage) stopTimers() {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	for _, e := range st.server.locks {
		e.timer.Stop()
	}
}
