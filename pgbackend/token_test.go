package pgbackend_test

import (
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func TestEpoch(t *testing.T) {
	at := pgbackend.NewOrigin
	row := pgbackend.NewEpochRow
	first := at(70, 5, 900, 1)
	for name, c := range map[string]struct {
		before pgbackend.EpochRow
		now    pgbackend.Origin
		want   int64
	}{
		"the first connection ever":               {row(at(0, 0, 0, 0), 0), first, 1},
		"the first one after two promotions":      {row(at(0, 0, 0, 0), 0), at(70, 5, 900, 3), 3},
		"nothing has changed":                     {row(first, 1), first, 1},
		"a replica was promoted":                  {row(first, 1), at(70, 5, 900, 2), 2},
		"a replica of one, which has missed it":   {row(first, 1), at(70, 5, 900, 3), 3},
		"a promotion after a restored dump":       {row(at(71, 5, 901, 4), 9), at(71, 5, 901, 5), 10},
		"the dump of a younger server":            {row(at(70, 5, 900, 6), 6), at(99, 5, 900, 1), 7},
		"pg_upgrade, which keeps all OIDs":        {row(first, 1), at(99, 5, 900, 1), 2},
		"a dump into another database":            {row(first, 1), at(70, 6, 1800, 1), 2},
		"a dump into the same database":           {row(first, 1), at(70, 5, 1800, 1), 2},
		"a dump into a promoted server":           {row(first, 1), at(99, 5, 900, 7), 8},
		"a dump from before a promotion":          {row(first, 1), at(70, 5, 1800, 2), 3}, // there was an epoch 2
		"an older timeline, by a strange restore": {row(at(70, 5, 900, 4), 4), at(70, 5, 900, 3), 5},
	} {
		next := c.before.At(c.now)
		if next.Epoch() != c.want {
			t.Errorf("%s: the epoch is %d, want %d", name, next.Epoch(), c.want)
		}
		if again := next.At(c.now); again != next {
			t.Errorf("%s: another connection to the same server raises the epoch from %d to %d", name, next.Epoch(), again.Epoch())
		}
		if next != c.before && next.Epoch() <= c.before.Epoch() {
			t.Errorf("%s: the sequence may have gone back, and the epoch is %d as before", name, next.Epoch())
		}
	}
}

// Whatever servers descend from each other, and however far each lags when it is promoted, no two
// of them have the same epoch, and a later one has the higher.
func TestEpochOverPromotionsThatLag(t *testing.T) {
	const promotions = 6
	virgin := pgbackend.NewEpochRow(pgbackend.NewOrigin(0, 0, 0, 0), 0)
	states := []pgbackend.EpochRow{virgin, virgin.At(pgbackend.NewOrigin(70, 5, 900, 1))}
	// lag counts, in each promotion, how many of the rows before have never reached the replica.
	var promote func(states []pgbackend.EpochRow)
	tried := 0
	promote = func(states []pgbackend.EpochRow) {
		if tried++; len(states) > promotions+1 {
			return
		}
		newest := states[len(states)-1]
		for lag := range states {
			seen := states[len(states)-1-lag]
			next := seen.At(pgbackend.NewOrigin(70, 5, 900, int64(len(states))))
			if next.Epoch() <= newest.Epoch() {
				t.Fatalf("after %d promotions a replica that has missed %d rows begins epoch %d, and there was epoch %d",
					len(states)-2, lag, next.Epoch(), newest.Epoch())
			}
			promote(append(states[:len(states):len(states)], next))
		}
	}
	promote(states)
	if tried < 500 {
		t.Errorf("only %d cases", tried)
	}
}

// A dump that is restored on its server brings the row of then back, whatever number of promotions
// lies in between.
func TestEpochOverDumps(t *testing.T) {
	for before := range int64(4) {
		for since := range int64(4) {
			row, dump, timeline, sequence := pgbackend.EpochRow{}, pgbackend.EpochRow{}, int64(1), int64(900)
			step := func() {
				row = row.At(pgbackend.NewOrigin(70, 5, sequence, timeline))
				timeline++
			}
			for range before + 1 {
				step()
			}
			dump = row
			for range since {
				step()
			}
			timeline, sequence = timeline-1, 1800
			if restored := dump.At(pgbackend.NewOrigin(70, 5, sequence, timeline)); restored.Epoch() <= row.Epoch() {
				t.Errorf("a dump of after %d promotions, restored after %d more, begins epoch %d, and there was epoch %d",
					before, since, restored.Epoch(), row.Epoch())
			}
		}
	}
}

func TestToken(t *testing.T) {
	for _, c := range []struct {
		epoch, value int64
		want         locker.Token
	}{
		{1, 1, 1<<48 | 1},
		{1, pgbackend.MaxValue, 1<<49 - 1},
		{2, 1, 1<<49 | 1},
		{pgbackend.MaxEpoch, pgbackend.MaxValue, 1<<63 - 1},
	} {
		if got, err := pgbackend.MakeToken(c.epoch, c.value); got != c.want || err != nil {
			t.Errorf("epoch %d, value %d: token %d, %v, want %d", c.epoch, c.value, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{0, 1}, {-1, 1}, {pgbackend.MaxEpoch + 1, 1}, {1, 0}, {1, -1}, {1, pgbackend.MaxValue + 1}} {
		if got, err := pgbackend.MakeToken(c[0], c[1]); err == nil {
			t.Errorf("epoch %d, value %d: token %d, want an error", c[0], c[1], got)
		}
	}
}
