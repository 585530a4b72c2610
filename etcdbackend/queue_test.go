package etcdbackend_test

import (
	"slices"
	"testing"

	"github.com/fencedlock/locker/etcdbackend"
)

// A place in the queue, by what is read and what the watch reports, in every order in which they
// may come. The own key is "me". A step is "look" (a request that reads is sent), "read a b" (its
// answer), "read a b +" (there are more), or "- a" (the watch reports that the key is gone), or
// "missed a" (a renewal has read that it is). "a@7" has a revision: a key was created at it, or deleted.
// A deletion without one is later than all creations.
func TestPlace(t *testing.T) {
	const twentyFour = "a b c d e f g h i j k l m n o p q r s t u v w x"
	const twentyFive = twentyFour + " y"
	for _, c := range []struct {
		why   string
		steps []string
		want  string
	}{
		{"the queue is empty", []string{"look", "read me"}, "won"},
		{"one is there", []string{"look", "read a me"}, "waits"},
		{"the one before goes", []string{"look", "read a me", "- a"}, "won"},
		{"one of two goes", []string{"look", "read a b me", "- a"}, "waits"},
		{"both go", []string{"look", "read a b me", "- b", "- a"}, "won"},
		{"one that came later goes", []string{"look", "read a me", "- z"}, "waits"},
		{"it goes while the request is under way, and was read", []string{"look", "- a", "read a me"}, "won"},
		{"it goes while the request is under way, and wasn't read", []string{"look", "- a", "read me"}, "won"},
		{"one of two goes while the request is under way", []string{"look", "- a", "read a b me"}, "waits"},
		{"what went before an earlier request counts no more", []string{"look", "- a", "read a b me", "look", "read b me"}, "waits"},
		{"there are more than were read", []string{"look", "read a me +", "- a"}, "looks"},
		{"there are more, and then none", []string{"look", "read a me +", "- a", "look", "read me"}, "won"},
		{"all that were read are gone by then, and there are more", []string{"look", "- a", "read a +"}, "looks"},
		{"nothing is known yet", []string{"look", "read +"}, "looks"},
		{"24 before it are near", []string{"look", "read " + twentyFour + " me"}, "waits"},
		{"25 before it are far: it hears of the eighth before it, and then of the rest", []string{"look", "read " + twentyFive + " me"}, "waits for r"},
		{"25, of which one is gone by then", []string{"look", "- d", "read " + twentyFive + " me"}, "waits"},
		{"far, and near after another look", []string{"look", "read " + twentyFive + " me", "look", "read c d me", "- c", "- d"}, "won"},
		{"far, and all gone while it looks again", []string{"look", "read " + twentyFive + " me", "look", "- r", "read r me"}, "won"},
		{"a renewal finds the one before it gone", []string{"look", "read a me", "missed a"}, "won"},
		{"a renewal finds one of two gone, so others may be", []string{"look", "read a b me", "missed a"}, "looks"},
		{"a renewal finds gone what the watch has said", []string{"look", "read a b me", "- a", "missed a"}, "waits"},
		{"a renewal finds the far one gone", []string{"look", "read " + twentyFive + " me", "missed r"}, "looks"},
		{"a renewal finds gone what was far before", []string{"look", "read " + twentyFive + " me", "look", "read c d me", "missed r"}, "waits"},
		{"a renewal finds one gone that a read under way still finds", []string{"look", "read a me", "look", "missed a", "read a me"}, "won"},
		{"an earlier key of that name went, which is reported late", []string{"look", "read a@7 me", "- a@5"}, "waits"},
		{"an earlier key of that name went, and then it goes", []string{"look", "read a@7 me", "- a@5", "- a@9"}, "won"},
		{"an earlier key of that name went, which is reported before it is read", []string{"look", "- a@5", "read a@7 me"}, "waits"},
		{"an earlier one and this one went before it is read", []string{"look", "- a@5", "- a@9", "read a@7 me"}, "won"},
		{"it goes, and comes back behind the own key", []string{"look", "read a@7 me", "- a@9", "- a@12"}, "won"},
		{"it is reported twice", []string{"look", "read a b me", "- a", "- a"}, "waits"},
	} {
		if got := etcdbackend.Place(c.steps); got != c.want {
			t.Errorf("%s: after %q it %s, want %s", c.why, c.steps, got, c.want)
		}
	}
}

// However a read and the ends of keys are mixed, no key before the own one is forgotten, and its
// end is never missed: it is the own turn exactly when all of them are gone.
func FuzzPlace(f *testing.F) {
	f.Add(uint8(3), uint32(0b101), []byte{1, 0, 2})
	f.Add(uint8(0), uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, ahead uint8, early uint32, order []byte) {
		ahead %= etcdbackend.NearHead + 1
		var keys []string
		for i := range ahead {
			keys = append(keys, string(rune('a'+i)))
		}
		steps := []string{"look"}
		gone := make(map[string]bool)
		for i, key := range keys { // these go while the request is under way; some of them before it is executed
			if early&(1<<i) != 0 {
				steps = append(steps, "- "+key)
				gone[key] = true
			}
		}
		read := "read me"
		for i, key := range keys {
			if !gone[key] || i%2 == 0 {
				read += " " + key
			}
		}
		steps = append(steps, read)
		for _, b := range order {
			if len(keys) > 0 {
				key := keys[int(b)%len(keys)]
				steps = append(steps, "- "+key)
				gone[key] = true
			}
		}
		want := "won"
		if slices.ContainsFunc(keys, func(key string) bool { return !gone[key] }) {
			want = "waits"
		}
		if got := etcdbackend.Place(steps); got != want {
			t.Errorf("after %q it %s, want %s", steps, got, want)
		}
	})
}
