// Package doccheck holds the tests of the pages: links and anchors lead somewhere, the README can be
// read in a terminal, error texts that are quoted exist in the code, and words are used as the
// glossary in docs/design.md says. It has no code for other packages.
package doccheck
