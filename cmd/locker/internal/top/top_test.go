package top

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// Keys have their effect while a list is under way, however many questions were asked and dropped.
func TestKeysWhileAListLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		defer keys.Close()
		lists, asked := 0, make(chan string, 10)
		s := Screen{
			Title: "t", Every: time.Second, In: in, Out: io.Discard,
			Size: func() (width, height int) { return 80, 24 },
			List: func(ctx context.Context) ([]Row, string, error) {
				if lists++; lists > 1 { // the service is slow
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
				}
				return []Row{{Key: "k", Name: "a", Title: "a", Token: "8"}, {Key: "l", Name: "b", Title: "b", Token: "9"}}, "", nil
			},
			Question: func(_ context.Context, row Row, _ bool) (string, error) {
				asked <- row.Name
				return "?", nil
			},
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		time.Sleep(5 * time.Second) // the second list is under way
		began := time.Now()
		for _, k := range []string{"b", "\x1b", "j", "b"} {
			_, _ = io.WriteString(keys, k)
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("four keys take %v", took)
		}
		if got := <-asked; got != "b" {
			t.Errorf("the first question is about %q, want the last one alone", got)
		}
		_, _ = io.WriteString(keys, "\x03")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
