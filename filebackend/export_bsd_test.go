//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

var KindOf = kindOf
