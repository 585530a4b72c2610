package certmagiclocker

// Slots is how many locks are held or waited for, as the storage knows.
func (s *Storage) Slots() int {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return len(s.slots.named)
}
