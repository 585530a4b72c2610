package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// broken is a call of break on a locker of the test.
type broken struct {
	*breaking
	out, stderr bytes.Buffer
}

func breakOf(t *testing.T, o breakOptions, name, answer string) *broken {
	t.Helper()
	cmd := newBreak()
	b := new(broken)
	cmd.SetIn(strings.NewReader(answer))
	cmd.SetOut(&b.out)
	cmd.SetErr(&b.stderr)
	asks := !o.yes
	if asks { // the input of a test is no terminal
		o.yes, o.token = true, "1"
	}
	var err error
	if b.breaking, err = o.breaking(cmd, name); err != nil {
		t.Fatal(err)
	}
	if asks {
		b.yes, b.token = false, 0
	}
	return b
}

// audit is the last line of JSON on the error output.
func (b *broken) audit(t *testing.T) auditLine {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(b.stderr.String()), "\n")
	last := lines[len(lines)-1]
	if at := strings.IndexByte(last, '{'); at > 0 { // behind the question, which ends without a newline
		last = last[at:]
	}
	var line auditLine
	if err := json.Unmarshal([]byte(last), &line); err != nil {
		t.Fatalf("%v in %q", err, b.stderr.String())
	}
	return line
}

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	if got := report(io.Discard, err); got != code {
		t.Fatalf("exit code %d (%v), want %d", got, err, code)
	}
}

// held is a lock that somebody holds, in a bubble.
func held(t *testing.T, test func(t *testing.T, service *membackend.Server, l locker.Locker, lease locker.Lease)) {
	synctest.Test(t, func(t *testing.T) {
		service := membackend.NewServer()
		l := membackend.New(membackend.WithServer(service))
		defer l.Close()
		lease, err := l.Acquire(t.Context(), "deploy", locker.WithHolder("alice"))
		if err != nil {
			t.Fatal(err)
		}
		test(t, service, l, lease)
	})
}

func TestBreakTellsTheHolderWhoAndWhy(t *testing.T) {
	t.Setenv("USER", "bob")
	file := filepath.Join(t.TempDir(), "audit")
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "hangs, OPS-119", audit: file, wait: true}, "deploy", "y\n")
		if err := b.run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		var breach *locker.Breach
		if err := lease.Err(); !errors.Is(err, locker.ErrBroken) || !errors.As(err, &breach) || breach.Reason != "hangs, OPS-119" || !strings.HasPrefix(breach.By, "bob@") {
			t.Errorf("the lease's Err is %v", err)
		}
		if out := b.out.String(); !strings.HasPrefix(out, "free after ") {
			t.Errorf("output %q", out)
		}
		if text := b.stderr.String(); !strings.Contains(text, "deploy is held by alice") || !strings.Contains(text, "Take it away? [y/N] ") {
			t.Errorf("the question is %q", text)
		}
		line := b.audit(t)
		if line.Action != "break" || line.Backend != "mem" || line.Name != "deploy" || line.Token != lease.Token().String() || line.Holder != "alice" ||
			!strings.HasPrefix(line.By, "bob@") || line.Reason != "hangs, OPS-119" || line.Mode != "safe" || line.WithinMS == nil || *line.WithinMS <= 0 || line.Error != "" {
			t.Errorf("audit %+v", line)
		}
	})
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(string(text), "}\n") || !strings.Contains(string(text), `"holder":"alice"`) {
		t.Errorf("the file of --audit has %q, %v", text, err)
	}
}

func TestBreakChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		o      breakOptions
		lock   string
		answer string
		says   string
	}{
		"the answer is no":    {breakOptions{reason: "x"}, "deploy", "n\n", "nothing was changed"},
		"there is no answer":  {breakOptions{reason: "x"}, "deploy", "", "nothing was changed"},
		"another lease":       {breakOptions{reason: "x", yes: true, token: "1"}, "deploy", "", "and not with 1"},
		"a lock that is free": {breakOptions{reason: "x", yes: true, token: "1"}, "other", "", "nobody holds other"},
	} {
		t.Run(name, func(t *testing.T) {
			held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
				err := breakOf(t, tc.o, tc.lock, tc.answer).run(t.Context(), l)
				wantCode(t, err, exitChecked)
				if !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want %q", err, tc.says)
				}
				synctest.Wait()
				if err := lease.Err(); err != nil {
					t.Errorf("the lease has ended: %v", err)
				}
			})
		})
	}
}

// cutOff tests with a lease of "deploy" whose holder is cut off from the service, and a Locker that
// isn't. The lease's TTL is 20 s.
func cutOff(t *testing.T, test func(t *testing.T, operator locker.Locker, lease locker.Lease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service := membackend.NewServer()
		link := membackend.NewLink()
		l := membackend.New(membackend.WithServer(service), membackend.WithLink(link))
		operator := membackend.New(membackend.WithServer(service))
		defer operator.Close()
		defer l.Close()
		lease, err := l.Acquire(t.Context(), "deploy", locker.WithTTL(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		link.Cut()
		defer link.Heal()
		test(t, operator, lease)
	})
}

// A break that is done is no failure when its last line can't be written: the code 1 says that nothing was taken away.
func TestBreakWhoseOutputFails(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "x", wait: true}, "deploy", "y\n")
		b.breaking.out = fullDevice{}
		wantCode(t, b.run(t.Context(), l), 0)
		if err := lease.Err(); !errors.Is(err, locker.ErrBroken) {
			t.Errorf("the lease's Err is %v, want ErrBroken", err)
		}
		if text := b.stderr.String(); !strings.Contains(text, "locker: free after ") || !strings.HasSuffix(text, "; the output could not be written: device is full\n") {
			t.Errorf("the error output is %q, want the result", text)
		}
	})
}

// A holder that doesn't hear of the mark keeps the lock until its TTL is over, and --wait waits for that.
func TestBreakWaitsForAHolderThatIsCutOff(t *testing.T) {
	cutOff(t, func(t *testing.T, operator locker.Locker, lease locker.Lease) {
		began := time.Now()
		if err := breakOf(t, breakOptions{reason: "cut off", yes: true, wait: true, token: lease.Token().String()}, "deploy", "").run(t.Context(), operator); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 21*time.Second {
			t.Errorf("the lock has passed on after %v, want after the TTL", took)
		}
	})
}

func TestBreakAtOnce(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "x", yes: true, now: true, token: lease.Token().String()}, "deploy", "")
		if err := b.run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if line := b.audit(t); line.Mode != "now" || line.WithinMS == nil || *line.WithinMS != 0 {
			t.Errorf("audit %+v", line)
		}
		next, err := locker.TryAcquire(t.Context(), l, "deploy")
		if err != nil || next.Token() <= lease.Token() {
			t.Errorf("the next lease: %v, %v", next, err)
		}
	})
}

// A question says of leases that nobody has named that they end.
func TestQuestionAboutOtherLeases(t *testing.T) {
	for _, others := range []bool{true, false} {
		held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, _ locker.Lease) {
			b := breakOf(t, breakOptions{reason: "x", now: true, withOthers: others}, "deploy", "n\n")
			wantCode(t, b.run(t.Context(), l), exitChecked)
			if text := b.stderr.String(); !strings.Contains(text, "passes on at once") || strings.Contains(text, "If other leases are on the same connection") != others {
				t.Errorf("with --with-others %v the question is %q", others, text)
			}
		})
	}
}

// A lock of the kernel can't be taken away: the error says what to do, and nobody is asked.
func TestBreakOfAFile(t *testing.T) {
	if _, err := newBreakCommandOn(t, "file://"+t.TempDir(), "deploy", "--reason", "x", "--yes", "--token", "1"); err == nil || report(io.Discard, err) != exitChecked {
		t.Errorf("break of a free lock = %v, want code %d", err, exitChecked)
	}
}

// The time of a break is when the lock was taken away, and not when somebody began to think about it.
func TestTimeOfABreak(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		b := breakOf(t, breakOptions{reason: "hangs"}, "deploy", "")
		b.in = slowAnswer{strings.NewReader("y\n")}
		want := time.Now().Add(slowness)
		if err := b.run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		var breach *locker.Breach
		if err := lease.Err(); !errors.As(err, &breach) || !breach.At.Equal(want) {
			t.Errorf("the lease's Err is %v, want the time %v", err, want)
		}
		if line := b.audit(t); !line.Time.Equal(want) {
			t.Errorf("audit %+v, want the time %v", line, want)
		}
	})
}

const slowness = time.Minute

type slowAnswer struct{ io.Reader }

func (s slowAnswer) Read(p []byte) (int, error) {
	time.Sleep(slowness)
	return s.Reader.Read(p)
}

// Under cron the input is /dev/null, and nobody can be asked.
func TestBreakAsksNobodyWithoutATerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd := newBreak()
	cmd.SetIn(null)
	_, err = (&breakOptions{reason: "hangs"}).breaking(cmd, "deploy")
	wantCode(t, err, exitUsage)
	if !strings.Contains(err.Error(), "--yes is required") {
		t.Errorf("error %v", err)
	}
}

// A reader of stderr that has stalled holds nothing up: the file has the line.
func TestAuditWithAStalledReader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	stalled := make(stalledReader)
	defer close(stalled)
	for path, wrong := range map[string]bool{file: false, "": true} {
		audit, err := openAudit(stalled, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := audit.write(auditLine{Name: "deploy"}); (err != nil) != wrong {
			t.Errorf("with the file %q: %v", path, err)
		}
		audit.close()
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"deploy"`) {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func newBreakCommandOn(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out, stderr bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&stderr)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(append([]string{"break", "--backend", url}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestBreakArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":              {[]string{"--reason", "x"}, "wants one NAME"},
		"no reason":            {[]string{"a", "--yes"}, "--reason is required: it is shown to the holder and written to the audit line"},
		"an empty reason":      {[]string{"a", "--yes", "--reason", " "}, "--reason is required"},
		"a long reason":        {[]string{"a", "--yes", "--token", "1", "--reason", strings.Repeat("x", locker.MaxReason+1)}, "want at most"},
		"no terminal":          {[]string{"a", "--reason", "x"}, "--yes is required"},
		"yes without a token":  {[]string{"a", "--yes", "--reason", "x"}, "--yes requires --token, the number that locker show prints"},
		"a token that is none": {[]string{"a", "--yes", "--reason", "x", "--token", "-1"}, "--token is invalid"},
		"others without now":   {[]string{"a", "--yes", "--token", "1", "--reason", "x", "--with-others"}, "--with-others needs --now"},
		"no such directory":    {[]string{"a", "--yes", "--token", "1", "--reason", "x", "--audit", "/nowhere/at/all"}, "--audit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newBreakCommandOn(t, "file://"+t.TempDir(), tc.args...)
			wantCode(t, err, exitUsage)
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
