// Package doccheck holds the tests of the pages: links and anchors lead somewhere, the README can be
// read in a terminal, error texts that are quoted exist in the code, words are used as the glossary in
// docs/design.md says, and the queries of the dashboard and the alerts have samples. It has
// no code for other packages.
package doccheck
