package driver

// heap orders leases by their next moment. A lease knows its place in the heap, so that a release
// takes it out in O(log n) and leaves no dead entry. That, and the cost of calling an interface for
// each step, is why this isn't container/heap.
type heap []*lease

// set gives l its next moment, whether it had one or not.
func (h *heap) set(l *lease, at Instant) {
	l.moment = at
	if l.heapPos < 0 {
		l.heapPos = len(*h)
		*h = append(*h, l)
		h.up(l.heapPos)
		return
	}
	h.up(l.heapPos)
	h.down(l.heapPos)
}

// remove takes l's moment away, if it has one.
func (h *heap) remove(l *lease) {
	i := l.heapPos
	if i < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	l.heapPos = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapPos, h[j].heapPos = i, j
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].moment <= h[i].moment {
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
			if h[child].moment < h[least].moment {
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
