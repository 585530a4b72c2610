//go:build unix

package itest

import "testing"

func TestMain(m *testing.M) { Main(m, 4) }
