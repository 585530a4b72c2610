package migratelocker

// ErrClosed is the error of a step that begins after Close.
var ErrClosed = errClosed
