package doccheck

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided are words that are old or hard to understand, and what to write in their place.
var avoided = map[string]string{
	`anew`:                   "again, or new",
	`shall`:                  "must",
	`whoever`:                "a caller that",
	`mend(s|ed|ing)?`:        "fix",
	`bears?`:                 "survive, or take",
	`beside`:                 "alongside, with, or next to",
	`behind (your|its) back`: "in the background",
	`(goes|going) on behind`: "in the background",
	`carr(y|ies|ied) out`:    "execute",
	`hangs? on`:              "attached to",
	`lets? go`:               "release",
	`the house`:              "the repository",
}

// avoidedInPages are right in themselves. Pages name the subject again in their place.
var avoidedInPages = map[string]string{
	`(that|those) of`: "name the subject again",
}

func compile(words map[string]string) map[*regexp.Regexp]string {
	compiled := map[*regexp.Regexp]string{}
	for word, instead := range words {
		compiled[regexp.MustCompile(`(?i)\b`+word+`\b`)] = instead
	}
	return compiled
}

// find returns the avoided words of a text, each with what to write in its place.
func find(words map[*regexp.Regexp]string, text string) []string {
	var found []string
	for word, instead := range words {
		if got := word.FindString(text); got != "" {
			found = append(found, got+" (write: "+instead+")")
		}
	}
	return found
}

// The pages keep the rules of language.
func TestWordsInPages(t *testing.T) {
	words := compile(avoided)
	maps.Copy(words, compile(avoidedInPages))
	for _, p := range pages(t) {
		glossary := false
		for _, l := range p.prose {
			if strings.HasPrefix(l.text, "#") {
				glossary = p.name == "docs/design.md" && l.text == "## Words"
			}
			text := l.text
			if glossary && strings.HasPrefix(text, "|") { // the last column is what not to write
				text = text[:strings.LastIndex(strings.TrimRight(text, "| "), "|")]
			}
			for _, f := range find(words, text) {
				t.Errorf("%s:%d: %s", p.name, l.number, f)
			}
		}
	}
}

// The comments in the code keep them as well.
func TestWordsInComments(t *testing.T) {
	words := compile(avoided)
	comments := 0
	for _, name := range files(t, ".go") {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			comments++
			text := strings.Join(strings.Fields(strings.ReplaceAll(group.Text(), "\n", " ")), " ")
			for _, f := range find(words, text) {
				t.Errorf("%s:%d: %s", name, set.Position(group.Pos()).Line, f)
			}
		}
	}
	if comments < 1000 {
		t.Errorf("found %d comments, want those of all packages", comments)
	}
}
