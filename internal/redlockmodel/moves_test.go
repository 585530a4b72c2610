package redlockmodel_test

import (
	"fmt"
	"strings"

	model "github.com/fencedlock/locker/internal/redlockmodel"
)

// What the worlds have in common.

const (
	mostNodes    = 5
	mostAttempts = 4
	most         = 99 // no token comes near it
)

// phase is how far an attempt is.
type phase uint8

const (
	idle    phase = iota // it has not begun
	asking               // phase 1
	raising              // phase 2
	holding
	over
)

// move is something that happens: to an attempt, on a server, with a token; where it has no
// meaning, each is 0.
type move struct {
	kind    kind
	attempt uint8
	node    uint8
	token   model.Token
}

type kind uint8

const (
	begins kind = iota
	acquires
	acquiresUnheard // its answer is lost, or too late
	goesOn          // to phase 2
	raises
	raisesUnheard
	returns
	renews
	expires
	expiresCounter
	loses
	saves
	goesBack
	goesBackAlive
	swaps
	notices
	recovers
	ends
	releases
	stepsBack
	ticks
	kinds
)

// say puts a move in words, with the answer that is given to it.
func (m move) say(answer model.Answer) string {
	text := [...]string{
		begins:          "%A begins, and asks all servers with token %T",
		acquires:        "acquire of %A on server %N: ",
		acquiresUnheard: "acquire of %A on server %N, unheard: ",
		goesOn:          "%A goes on to phase 2, with token %T",
		raises:          "raise of %A on server %N: ",
		raisesUnheard:   "raise of %A on server %N, unheard: ",
		returns:         "%A returns a lease with token %T",
		renews:          "renew of %A on server %N: ",
		expires:         "the key on server %N expires",
		expiresCounter:  "the counter on server %N expires",
		loses:           "server %N loses its data",
		saves:           "server %N writes a snapshot",
		goesBack:        "server %N comes back with its snapshot",
		goesBackAlive:   "server %N lives on, and goes back to its snapshot",
		swaps:           "server %N swaps its databases",
		notices:         "server %N is asked about another lock",
		recovers:        "server %N has waited for the longest TTL",
		ends:            "%A gives up, or releases its lease",
		releases:        "release of %A on server %N",
		stepsBack:       "the clock of server %N is set back to before all that it knows",
		ticks:           "time goes by",
	}[m.kind]
	return strings.NewReplacer("%A", string(rune('A'+m.attempt)), "%N", fmt.Sprint(m.node+1), "%T", fmt.Sprint(m.token)).Replace(text) + string(answer)
}

// after tells what had to happen first.
func (m move) after(expired bool) string {
	if !expired {
		return ""
	}
	return move{kind: expires, node: m.node}.say("") + "; "
}

// pack is for sorting.
func pack(n model.Node) uint64 {
	aside := uint64(0)
	if n.Aside {
		aside = 1 << 56
	}
	return aside | uint64(n.Age)<<48 | uint64(n.Holder)<<40 | uint64(n.Raised)<<32 | uint64(n.Token)<<24 | uint64(n.Memory)<<16 | uint64(n.Since)<<8 | uint64(n.Tombs)
}
