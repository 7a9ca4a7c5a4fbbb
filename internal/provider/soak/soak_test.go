package soak

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

const (
	// minutesEnv says for how long new days are begun. Without it the slice runs.
	minutesEnv = "SOAK_MINUTES"
	// seedEnv repeats what was done with that seed.
	seedEnv = "SOAK_SEED"
	// shrinkEnv is how long a failure is made shorter, as a duration. Every try is a day of its own: a minute or two.
	shrinkEnv = "SOAK_SHRINK"

	// sliceEnv is the seed of the slice: a short day, as part of "make test". The commit gives it there: each commit tries
	// something new, and the tests of one commit repeat it.
	sliceEnv = "SOAK_SLICE"

	// steps is about how many moves a day has.
	steps = 40
	// sliceSteps is the same for the slice.
	sliceSteps = 10
)

func TestMain(m *testing.M) { acctest.Main(m) }

// TestAccSoak: whatever is configured, done by hand and broken, in whatever order, nothing is lost and no plan lies.
func TestAccSoak(t *testing.T) {
	l := lab.Open(t)
	s := &soak{lab: l, tally: newTally()}
	for range 3 {
		s.hosts = append(s.hosts, l.StartHost(t))
	}
	t.Cleanup(s.tally.report(t))
	set(t, "rapid.checks", "1")
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.shrinktime", or(os.Getenv(shrinkEnv), "0s"))
	for _, seed := range seeds(t) {
		if !seed.begin() {
			break
		}
		t.Logf("a day with seed %d (%s=%d repeats it)", seed.number, seed.variable, seed.number)
		set(t, "rapid.seed", strconv.FormatUint(seed.number, 10))
		set(t, "rapid.steps", strconv.Itoa(seed.steps))
		t.Run(fmt.Sprintf("seed=%d", seed.number), func(t *testing.T) {
			s.t, s.found = t, ""
			s.tally.days++
			rapid.Check(t, s.day)
		})
	}
}

// A day begins with a seed, if there is still time.
type seed struct {
	number   uint64
	variable string
	steps    int
	begin    func() bool
}

func seeds(t *testing.T) []seed {
	t.Helper()
	minutes := os.Getenv(minutesEnv)
	always := func() bool { return true }
	first := seedIn(t, seedEnv)
	if minutes == "" {
		if first != 0 {
			return []seed{{first, seedEnv, steps, always}}
		}
		return []seed{{cmp.Or(seedIn(t, sliceEnv), randomSeed()), sliceEnv, sliceSteps, always}}
	}
	first = cmp.Or(first, randomSeed())
	n, err := strconv.ParseFloat(minutes, 64)
	if err != nil {
		t.Fatalf("%s: %v", minutesEnv, err)
	}
	until := time.Now().Add(time.Duration(n * float64(time.Minute)))
	var days []seed
	for i := range uint64(10_000) {
		days = append(days, seed{first + i, seedEnv, steps, func() bool { return time.Now().Before(until) }})
	}
	return days
}

// seedIn returns the seed in a variable of the environment, 0 for none.
func seedIn(t *testing.T, variable string) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func randomSeed() uint64 { return rand.Uint64N(1_000_000) + 1 }

func set(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// soak is what all days share.
type soak struct {
	// t is the day's test.
	t     *testing.T
	lab   *lab.Lab
	hosts []*lab.Host
	tally *tally
	// found is what the day failed of.
	found string
}

// day is a configuration with a few VMs, and an operator who doesn't leave it alone.
func (s *soak) day(t *rapid.T) {
	if s.found != "" && os.Getenv(shrinkEnv) == "" {
		t.Fatal(s.found) // Without making it shorter there is no use in having it again.
	}
	w := s.newWorld(t)
	defer w.clear()
	w.apply(0)
	w.apply(1)
	w.awaitGuests()
	all := moves()
	t.Repeat(map[string]func(*rapid.T){
		"move": func(t *rapid.T) {
			w.r = t
			able := all.able(w)
			m := draw(w, "move", able...)
			w.begin(m.name)
			m.do(w)
			w.moves++
			s.tally.moves[m.name]++
		},
		"": func(t *rapid.T) {
			w.r = t
			w.check("")
		},
	})
	w.evening()
}

// move is one thing that an operator does.
type move struct {
	name string
	// weight is how often it is drawn, compared with others.
	weight int
	// able tells whether there is something to do it to.
	able func(*world) bool
	do   func(*world)
}

type moveList []move

// able repeats each move that can be done as often as it weighs.
func (l moveList) able(w *world) moveList {
	var able moveList
	for _, m := range l {
		if m.able == nil || m.able(w) {
			for range m.weight {
				able = append(able, m)
			}
		}
	}
	return able
}

func moves() moveList {
	var all moveList
	for _, some := range []moveList{
		configMoves(), fleetMoves(), stateMoves(), powerByHand(), definitionByHand(), deviceByHand(), tuningByHand(),
		placeByHand(), faults(),
	} {
		all = append(all, some...)
	}
	return all
}

// indexBits are more than any list here has items.
const indexBits = 12

// index draws one of so many, each as likely as the others; it shrinks to the first. rapid itself draws small numbers
// more often, which finds empty lists, and has an operator do the same few things all day.
func index(w *world, what string, n int) int {
	at := 0
	for _, bit := range rapid.SliceOfN(rapid.Bool(), indexBits, indexBits).Draw(w.r, what) {
		if at <<= 1; bit {
			at++
		}
	}
	return at * n >> indexBits
}

// draw picks one of some.
func draw[T any](w *world, what string, from ...T) T { return from[index(w, what, len(from))] }

// chance is true once in so many times. It shrinks to false.
func chance(w *world, what string, in int) bool { return index(w, what, in) == in-1 }

// some picks any of the flags, each with its own chance.
func some(w *world, flags ...string) []string {
	var out []string
	for _, f := range flags {
		if rapid.Bool().Draw(w.r, f) {
			out = append(out, strings.Fields(f)...)
		}
	}
	return out
}

// say adds a line to the script of the day.
func (w *world) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.script = append(w.script, line)
	if testing.Verbose() {
		w.t.Logf("%s %s", time.Now().Format("15:04:05"), line)
	}
}

func (w *world) begin(name string) { w.say("# %s", name) }
