package reference

import (
	"errors"
	"io"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
)

// Harness gives each case its own service, in a bubble. All hooks are simulated. The service has a
// defect if m isn't nil.
func Harness(m *Mutation, d Dialect) conformance.Harness {
	return conformance.Harness{
		TTL: time.Second, Slack: 10 * time.Millisecond, Strict: true, Wrap: synctest.Test,
		Setup: func(t conformance.T, h *conformance.Harness) { useService(t, h, newService(m, d)) },
	}
}

func useService(t conformance.T, h *conformance.Harness, s *Service) {
	bare := func(name string) string { return s.steps.key("", name) }
	rawURL, stop := s.Serve()
	t.Cleanup(stop)
	h.Open = func(conformance.T) locker.Locker { return s.Open(new(Link)) }
	h.Hooks = conformance.Hooks{
		Linked: func(conformance.T) (locker.Locker, conformance.Link) {
			link := new(Link)
			return s.Open(link), link
		},
		Process: func(t conformance.T) process.Process {
			link := new(Link)
			return simulate(t, s.Open(link), link)
		},
		Skewed: func(t conformance.T, ahead time.Duration) process.Process {
			link := new(Link)
			return simulate(t, s.OpenAhead(link, ahead), link)
		},
		Pause:   func(conformance.T) { s.Pause() },
		Resume:  func(conformance.T) { s.Resume() },
		Down:    func(conformance.T) { s.Down() },
		Up:      func(conformance.T) { s.Up() },
		Restart: func(conformance.T) { s.Restart() },
		Wipe:    func(conformance.T) { s.Wipe() },
		Remove: func(t conformance.T, name string) {
			if !s.Remove(bare(name)) {
				t.Errorf("nobody holds %q", name)
			}
		},
		Waiters:  func(_ conformance.T, name string) int { return s.Waiters(bare(name)) },
		Requests: func(conformance.T) int64 { return s.Requests() },
		Residue:  func(conformance.T) string { return s.Residue() },
		Prefixed: func(_ conformance.T, prefix string) locker.Locker { return s.Prefixed(prefix) },
		URL:      rawURL,
		BadURLs: map[string]string{
			"password":          scheme + "://user:sesame@1",
			"path":              scheme + "://1/sesame",
			"no such service":   scheme + "://sesame",
			"negative TTL":      rawURL + "?ttl=-1s",
			"unknown parameter": rawURL + "?tls=sesame",
			"no URL":            scheme + "://%zz:sesame@",
		},
		Secrets: []string{"sesame"},
		Absent: map[conformance.Hook]string{
			conformance.HookFailover:  "there is one server",
			conformance.HookForgetful: "connections have no state in the simulated network that it could forget",
		},
	}
	if s.dialect.Polling {
		h.Waiters = nil
		h.Absent[conformance.HookWaiters] = "there is no queue"
	}
}

// simulate makes a process of a Locker. Of a process that was killed or stopped, the service hears
// nothing.
func simulate(t conformance.T, l locker.Locker, link *Link) process.Process {
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- process.Serve(l, in, out) }()
	t.Cleanup(func() {
		link.Heal()
		if err := l.Close(); err != nil {
			t.Logf("Close = %v", err)
		}
		_ = commands.Close()
		_ = answers.Close() // nobody may have waited for the last answer
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	return process.New(commands, answers, link.Cut, link.Cut, link.Heal)
}
