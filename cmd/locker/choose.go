package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fencedlock/locker/cmd/locker/internal/choice"
)

const chooseLong = `Asks what the lock is for, and says which backend to take, why, and what that backend does not
promise. Often no lock is needed at all. It prints the Go code that opens the backend, with the
requirements that follow from the answers. If the data is in several places, the strictest one
decides. On a terminal it asks for what the flags leave open; elsewhere it names the first flag that
is missing. docs/choosing.md has the same questions, with more about each.

  locker choose --work other --among network --for correctness --have redis,postgres --data postgres`

func newChoose() *cobra.Command {
	var require []string
	flags := make(map[string]func() string)
	cmd := &cobra.Command{
		Use:   "choose",
		Short: "Find the backend for a purpose",
		Long:  chooseLong,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			needs, err := parseRequirements(require)
			if err != nil {
				return err
			}
			answers := choice.Answers{}
			for _, q := range choice.Questions {
				if !cmd.Flags().Changed(q.Key) {
					continue
				}
				if answers[q.Key], err = q.Parse(flags[q.Key]()); err != nil {
					return fmt.Errorf("--%s: %w", q.Key, err)
				}
			}
			if err := ask(cmd, answers); err != nil {
				return err
			}
			advice, err := choice.Advise(answers, allGuarantees(), needs...)
			if err != nil {
				return err
			}
			return output(cmd, adviceText(advice))
		},
	}
	for _, q := range choice.Questions {
		if q.Many {
			words := cmd.Flags().StringSlice(q.Key, nil, q.Usage())
			flags[q.Key] = func() string { return strings.Join(*words, ",") }
		} else {
			word := cmd.Flags().String(q.Key, "", q.Usage())
			flags[q.Key] = func() string { return *word }
		}
		var words []string
		for _, o := range q.Options {
			words = append(words, o.Word)
		}
		mustComplete(cmd, q.Key, words)
	}
	cmd.Flags().StringSliceVar(&require, "require", nil, "what else the backend must promise, as for locker run")
	mustComplete(cmd, "require", requirementNames())
	return cmd
}

// ask gets the answers that are still missing.
func ask(cmd *cobra.Command, answers choice.Answers) error {
	in := bufio.NewScanner(cmd.InOrStdin())
	for {
		q, missing := choice.Next(answers)
		if !missing {
			return nil
		}
		if !isTerminal(cmd.InOrStdin()) {
			return fmt.Errorf("--%s is missing; %s", q.Key, q.Usage())
		}
		answer, err := askOne(cmd.ErrOrStderr(), in, q)
		if err != nil {
			return err
		}
		answers[q.Key] = answer
	}
}

// askOne repeats a question until it has an answer.
func askOne(w io.Writer, in *bufio.Scanner, q choice.Question) ([]string, error) {
	text := "\n" + q.Text + "\n"
	for i, o := range q.Options {
		text += fmt.Sprintf("  %d  %-12s %s\n", i+1, o.Word, o.Text)
	}
	prompt := "> "
	if q.Many {
		prompt = "one or more, with commas between them > "
	}
	if q.None {
		prompt = "one or more, with commas between them, or none > "
	}
	_, _ = io.WriteString(w, text) // if this fails, there is nobody to read about it
	for {
		_, _ = io.WriteString(w, prompt)
		if !in.Scan() {
			return nil, errors.Join(fmt.Errorf("no answer; give it by --%s", q.Key), in.Err())
		}
		answer, err := q.Parse(in.Text())
		if err == nil {
			return answer, nil
		}
		_, _ = fmt.Fprintln(w, err)
	}
}

// isTerminal reports whether somebody can answer there. Other devices, such as the /dev/null of a job of cron,
// are none.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn() // Fd would change how the input is read
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) { is = term.IsTerminal(int(fd)) })
	return is && err == nil
}

const adviceWidth = 90

func adviceText(a choice.Advice) string {
	var b strings.Builder
	b.WriteString(a.Take + "\n")
	if a.URL != "" {
		b.WriteString("\n  " + a.URL + "\n\nIn Go:\n\n")
		for line := range strings.Lines(openCode(a)) {
			b.WriteString(strings.TrimRight("  "+line, " \n") + "\n")
		}
	}
	for _, part := range []struct {
		head  string
		lines []string
	}{
		{"Why", a.Why},
		{"What it does not promise", a.Not},
		{"In addition", a.Also},
	} {
		if len(part.lines) == 0 {
			continue
		}
		b.WriteString("\n" + part.head + ":\n")
		for _, line := range part.lines {
			b.WriteString("  - " + strings.Join(fold(line, adviceWidth), "\n    ") + "\n")
		}
	}
	return b.String()
}
