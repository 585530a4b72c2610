// Package codecheck holds the tests of the code in the pages: each block of Go in README.md and
// docs/*.md compiles, and each command line of locker has commands and flags that exist. It has no
// code for other packages.
//
// # Blocks of Go
//
// A block is a whole file (it begins with "package"), or a fragment: imports, declarations and
// statements. The statements become the body of a function that returns an error. What a fragment
// needs is handled like this:
//
//   - A package that it uses is imported if it is a package of this module, of the standard library
//     or of a module that this one requires.
//   - A name that it uses and doesn't declare is declared in testdata/needs: in all.go for all
//     pages, and in NAME.go for the page docs/NAME.md. What a block declares itself comes first.
//   - "…" stands for code that is left out: alone on its line, or alone between braces.
//   - Unused variables are no mistake. A statement that declares nothing but what is declared
//     before begins an alternative: what follows belongs to it.
//
// A comment on the line above a block changes that:
//
//	<!-- codecheck: module adapters/gocron -->    the block is code of a program in that module
//	<!-- codecheck: skip: REASON -->              the block isn't checked
package codecheck
