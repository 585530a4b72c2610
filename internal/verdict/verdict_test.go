package verdict_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencedlock/locker/internal/verdict"
)

// liar has a method As that must not be asked.
type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(any) bool   { panic("asked") }

func TestFind(t *testing.T) {
	first, second := &verdict.Loss{Class: "first", Err: errors.New("x")}, &verdict.Loss{Class: "second", Err: liar{}}
	outcome := &verdict.Outcome{Class: "error", Err: first}
	for _, c := range []struct {
		name string
		err  error
		want *verdict.Loss
	}{
		{"nil", nil, nil},
		{"none", liar{}, nil},
		{"none, wrapped", fmt.Errorf("a: %w", liar{}), nil},
		{"none of several", errors.Join(liar{}, liar{}), nil},
		{"itself", first, first},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", first)), first},
		{"below another type", outcome, first},
		{"the first of several", errors.Join(liar{}, fmt.Errorf("a: %w", second), first), second},
		{"deep before late", errors.Join(errors.Join(liar{}, outcome), second), first},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := verdict.Find[*verdict.Loss](c.err)
			if got != c.want || ok != (c.want != nil) {
				t.Errorf("Find = %v, %v, want %v", got, ok, c.want)
			}
		})
	}
}
