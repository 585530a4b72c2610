//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

import "github.com/fencedlock/locker"

// Only Linux shows who has locked a file.
const inspection = locker.InspectionNone

func inspects(fileSystem) bool { return false }

func lacks(string, string) bool { return false }

func (d *fileDriver) holder(string) (*locker.Party, error) { return nil, locker.ErrNoInspector }
