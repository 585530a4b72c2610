package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/matrix"
)

var matrixFormats = map[string]func([]locker.Guarantees) string{
	"text":     matrixText,
	"markdown": matrixMarkdown,
	"json":     matrixJSON,
}

func newMatrix() *cobra.Command {
	formats := []string{"text", "markdown", "json"}
	format := formats[0]
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Print the matrix of guarantees: what each backend promises",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			render := matrixFormats[format]
			if render == nil {
				return unknownFormat(format, strings.Join(formats, ", "))
			}
			return output(cmd, render(allGuarantees()))
		},
	}
	cmd.Flags().StringVar(&format, "format", format, strings.Join(formats, ", "))
	mustComplete(cmd, "format", formats)
	return cmd
}

// allGuarantees has a row for each backend.
func allGuarantees() []locker.Guarantees {
	rows := make([]locker.Guarantees, len(backends))
	for i, guarantees := range backends {
		rows[i] = guarantees()
	}
	return rows
}

// output is for what a command was called for; an error of say is ignored, one of output is not.
func output(cmd *cobra.Command, text string) error {
	if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
		return &exitError{code: exitOutput, err: err}
	}
	return nil
}

func matrixMarkdown(rows []locker.Guarantees) string {
	text := matrix.MarkdownHeader() + "\n"
	for _, g := range rows {
		text += matrix.MarkdownRow(g) + "\n"
	}
	return text
}

const (
	textColumns = 4  // backends side by side: a line has less than 100 characters with these widths
	textCell    = 17 // longer words than that stand out of their column
	textGap     = 2
)

// matrixText has the guarantees as rows and a few backends at a time as columns, because a terminal
// is too narrow for the other way around.
func matrixText(rows []locker.Guarantees) string {
	var blocks []string
	for some := range slices.Chunk(rows, textColumns) {
		blocks = append(blocks, textBlock(some))
	}
	return strings.Join(blocks, "\n")
}

func textBlock(rows []locker.Guarantees) string {
	lines := [][]string{{""}}
	for _, f := range matrix.Fields(locker.Guarantees{}) {
		lines = append(lines, []string{f.Name})
	}
	for _, g := range rows {
		lines[0] = append(lines[0], g.Backend)
		for i, f := range matrix.Fields(g) {
			lines[i+1] = append(lines[i+1], f.Value)
		}
	}
	label := 0
	for _, line := range lines {
		label = max(label, len(line[0]))
	}
	var b strings.Builder
	for _, line := range lines {
		textLine(&b, line, label)
	}
	return b.String()
}

// textLine writes a label and the cells next to it, folded at spaces.
func textLine(b *strings.Builder, line []string, label int) {
	cells := [][]string{{line[0]}}
	height := 1
	for _, cell := range line[1:] {
		folded := fold(cell, textCell)
		cells = append(cells, folded)
		height = max(height, len(folded))
	}
	for i := range height {
		text := ""
		for column, cell := range cells {
			width, part := textCell, ""
			if column == 0 {
				width = label
			}
			if i < len(cell) {
				part = cell[i]
			}
			text += fmt.Sprintf("%-*s", width+textGap, part)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

func fold(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
