//go:build !linux

package netns

import (
	"context"
	"errors"
	"strconv"
)

var errOther = errors.New("cuts below TCP need Linux")

// Usable returns an error: namespaces exist only on Linux.
func Usable() error { return errOther }

// Entered returns the same error as Usable.
func Entered(int) error { return errOther }

// Set returns the same error as Usable.
func Set(int, map[string]string) error { return errOther }

func inside(int, func()) error { return errOther }

func namespaceOf(pid int) string { return strconv.Itoa(pid) }

func command(context.Context, int, string, ...string) error { return errOther }
