package kit

import "time"

// width is how many lanes there are. It follows the round trip: as long as a message takes about as
// long as one that meets no other, the network is what takes the time, and another lane carries
// more requests in it. When messages take longer than that, they wait for each other, in the
// service or in this process, and requests are better off in fewer messages.
type width struct {
	lanes       int
	least, most int

	lowest time.Duration // what a message takes that meets no other
	usual  time.Duration // what messages take now, smoothed; 0: none has been measured
	at     time.Time     // when the last one was measured
}

// In simulations of a service with a round trip of 20 µs, 0.5 ms and 5 ms, and from 4 to 512
// callers, these bounds came within a few percent of the best fixed width in nearly every case, and
// were at most half a percent worse than four lanes. With higher bounds there are so many lanes that requests
// don't join; with lower ones the lanes don't grow under load.
const (
	growBelow   = 1.25 // times lowest
	shrinkAbove = 1.5
)

// forgetting is in what time lowest grows by a factor of e: a service may have moved farther away.
const forgetting = 10 * time.Second

func newWidth(least, most int) width {
	return width{lanes: least, least: least, most: max(least, most)}
}

// isFixed reports whether nothing needs to be measured.
func (w *width) isFixed() bool { return w.least == w.most }

// measured notes that a message took d, and whether requests have waited for a lane.
func (w *width) measured(d time.Duration, now time.Time, waited bool) {
	if w.usual == 0 {
		w.lowest, w.usual = d, d
	} else {
		grown := float64(w.lowest) * (1 + now.Sub(w.at).Seconds()/forgetting.Seconds())
		w.lowest = min(d, time.Duration(grown))
		w.usual += (d - w.usual) / 8
	}
	w.at = now
	switch ratio := float64(w.usual) / float64(w.lowest); {
	case ratio > shrinkAbove:
		w.lanes = max(w.lanes-1, w.least)
	case waited && ratio < growBelow:
		w.lanes = min(w.lanes+1, w.most)
	}
}
