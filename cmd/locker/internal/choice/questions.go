// Package choice is the decision flow of docs/choosing.md: questions, and the advice that follows
// from the answers and from what the backends promise.
package choice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/locker/cmd/locker/internal/plain"
)

// Question is one step of the flow.
type Question struct {
	Key     string // of its answer; the name of its flag
	Text    string
	Options []Option
	Many    bool // more than one option may be chosen
	None    bool // none may be chosen

	asked func(Answers) bool // nil: always
}

// Option is one possible answer.
type Option struct{ Word, Text string }

// Answers contains the chosen words by the keys of the questions.
type Answers map[string][]string

func (a Answers) has(key, word string) bool { return slices.Contains(a[key], word) }

// Questions is the flow, in its order.
var Questions = []Question{
	{Key: "work", Text: "What is the work that must not be done by two at once?", Options: []Option{
		{"idempotent", "the same result, however often it is done"},
		{"record", "a change of one record"},
		{"database", "a change of several rows of one database"},
		{"jobs", "a stream of jobs, each for one worker"},
		{"other", "something else: several systems, or too expensive to do twice"},
	}},
	{Key: "among", Text: "Where do the programs run that must be kept apart?", asked: needsLock, Options: []Option{
		{"process", "in one process"},
		{"machine", "in processes of one machine"},
		{"network", "on several machines"},
	}},
	{Key: "for", Text: "What if two do it at once in spite of the lock?", asked: amongProcesses, Options: []Option{
		{"efficiency", "a nuisance: work is done twice, an e-mail is sent twice"},
		{"correctness", "damage: data is corrupted, money is lost"},
	}},
	{Key: "have", Text: "Which of these do you run already?", Many: true, None: true, asked: onNetwork, Options: []Option{
		{"redis", "one Redis or Valkey, with replicas or without"},
		{"redlock", "three, five or seven Redis servers that know nothing of each other"},
		{"etcd", "an etcd cluster"},
		{"zookeeper", "a ZooKeeper ensemble"},
		{"postgres", "Postgres"},
	}},
	{Key: "data", Text: "Where is the data that must not be damaged?", Many: true, asked: forCorrectness, Options: []Option{
		{"postgres", "in Postgres"},
		{"sql", "in another SQL database"},
		{"redis", "in Redis"},
		{"etcd", "in etcd"},
		{"own", "in something of your own that can compare a number as it writes"},
		{"foreign", "at somebody else's, who can't"},
	}},
}

func needsLock(a Answers) bool { return a.has("work", "other") }
func amongProcesses(a Answers) bool {
	return needsLock(a) && len(a["among"]) > 0 && !a.has("among", "process")
}
func onNetwork(a Answers) bool      { return amongProcesses(a) && a.has("among", "network") }
func forCorrectness(a Answers) bool { return amongProcesses(a) && a.has("for", "correctness") }

// Next returns the first question that has no answer and that the other answers don't make
// unnecessary. If there is none, the advice is determined.
func Next(a Answers) (Question, bool) {
	for _, q := range Questions {
		if _, answered := a[q.Key]; !answered && (q.asked == nil || q.asked(a)) {
			return q, true
		}
	}
	return Question{}, false
}

// Parse reads an answer: the word of an option, or its number from 1. If the question allows it, an
// answer may be several of them with commas, or empty.
func (q Question) Parse(answer string) ([]string, error) {
	words := []string{}
	for word := range strings.SplitSeq(answer, ",") {
		word = strings.TrimSpace(word)
		switch known := q.word(word); {
		case known != "":
			if !slices.Contains(words, known) {
				words = append(words, known)
			}
		case word == "" && q.None:
		default:
			return nil, fmt.Errorf("%s is no answer (known: %s)", plain.Quote(word), q.words())
		}
	}
	if len(words) > 1 && !q.Many {
		return nil, fmt.Errorf("one answer is enough (known: %s)", q.words())
	}
	return words, nil
}

func (q Question) word(s string) string {
	for i, o := range q.Options {
		if s == o.Word || s == fmt.Sprint(i+1) {
			return o.Word
		}
	}
	return ""
}

func (q Question) words() string {
	var words []string
	for _, o := range q.Options {
		words = append(words, o.Word)
	}
	return strings.Join(words, ", ")
}

// Usage returns the help text of the question's flag.
func (q Question) Usage() string { return usage(q) }

func usage(q Question) string {
	text := strings.TrimSuffix(q.Text, "?") + ": " + q.words()
	if q.Many {
		text += "; several with commas"
	}
	return text
}
