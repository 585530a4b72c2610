package driver

// heap orders leases by the moment at which each wants attention next. A lease knows its place, so that a release
// takes it out in O(log n) instead of leaving a husk behind; that, and not calling an interface for each step, is why
// this isn't container/heap.
type heap []*lease

// set gives l its next moment, whether it had one or not.
func (h *heap) set(l *lease, at Instant) {
	l.at = at
	if l.pos < 0 {
		l.pos = len(*h)
		*h = append(*h, l)
		h.up(l.pos)
		return
	}
	h.up(l.pos)
	h.down(l.pos)
}

// remove takes l's moment away, if it has one.
func (h *heap) remove(l *lease) {
	i := l.pos
	if i < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	l.pos = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].at < h[least].at {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
