package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tally counts what was done and refused, so that a reader sees whether the operator is mostly refused.
type tally struct {
	days, plans, applies, applied int
	moves, refusals, virsh        map[string]int
}

func newTally() *tally {
	return &tally{moves: map[string]int{}, refusals: map[string]int{}, virsh: map[string]int{}}
}

func (c *tally) report(t *testing.T) func() {
	t.Helper()
	return func() {
		var b strings.Builder
		total := 0
		for _, n := range c.moves {
			total += n
		}
		fmt.Fprintf(&b, "%d days, %d moves, %d plans, %d applies of which %d succeeded\n", c.days, total, c.plans, c.applies,
			c.applied)
		for title, of := range map[string]map[string]int{
			"Moves": c.moves, "Refused by the provider or failed": c.refusals, "Refused by virsh": c.virsh,
		} {
			fmt.Fprintf(&b, "%s:\n", title)
			keys := slices.Sorted(maps.Keys(of))
			slices.SortStableFunc(keys, func(x, y string) int { return of[y] - of[x] })
			for _, key := range keys {
				fmt.Fprintf(&b, "  %4d  %s\n", of[key], key)
			}
		}
		t.Log(b.String())
	}
}
