package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/fencedlock/locker/cmd/locker/internal/demo"
)

// picture is the file of demo --svg. It is opened before the story, so that a file that can't be
// written is found at once, and changed when the story has ended.
type picture struct {
	file  *os.File
	empty bool // it is new, or has nothing that could be lost
}

func openPicture(path string) (*picture, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // a picture for everybody, and the user's own path
	if err != nil {
		return nil, fmt.Errorf("--svg: %w", withoutPath(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("--svg: %w", err)
	}
	return &picture{file: f, empty: info.Size() == 0}, nil
}

// draw replaces what is in the file.
func (p *picture) draw(panels []demo.Panel) error {
	var text bytes.Buffer
	if err := demo.SVG(&text, panels); err != nil {
		return err
	}
	p.empty = false
	err := p.file.Truncate(0)
	if err == nil {
		_, err = p.file.Write(text.Bytes())
	}
	if err == nil {
		err = p.file.Close()
	}
	if err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	return nil
}

// close removes a file without a picture.
func (p *picture) close() {
	_ = p.file.Close() // draw has reported an error of what it wrote
	if p.empty {
		_ = os.Remove(p.file.Name())
	}
}
